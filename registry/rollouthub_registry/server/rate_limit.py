"""Limits requests per minute for each address or token (a token bucket)."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from rollouthub_registry.server.server_error import RegistryRequestRefused

_MOST_REMEMBERED = 10_000


class RateLimit:
    """So many requests a minute for each of many callers; as many may come at once."""

    def __init__(self, per_minute: int, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`what` is what there is too much of, in the refusal's words."""
        self._per_minute, self._what, self._clock = per_minute, what, clock
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """Of who asked lately: how many they have left, as of when. Who is forgotten starts with all."""

    def take(self, caller: Hashable) -> None:
        """Count a request.

        Raises:
            Refused: with 429, and when to come back.
        """
        now, rate = self._clock(), self._per_minute / 60
        left, since = self._left.pop(caller, (float(self._per_minute), now))
        left = min(float(self._per_minute), left + (now - since) * rate)
        is_allowed = left >= 1
        self._left[caller] = (left - 1 if is_allowed else left, now)
        if len(self._left) > _MOST_REMEMBERED:
            self._left.popitem(last=False)
        if not is_allowed:
            raise RegistryRequestRefused(
                429,
                f"too many {self._what}: {self._per_minute} a minute are allowed; try again later",
                retry_after_seconds=(1 - left) / rate,
            )
