"""Limits requests per minute for each address or token (a token bucket)."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from rollouthub_registry.server.server_error import RegistryRequestRefused

_MOST_REMEMBERED = 10_000


class RateLimit:
    """Limits each caller to a number of requests per minute, which may also come at once."""

    def __init__(self, per_minute: int, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`what` names the requests in the refusal's message."""
        self._per_minute, self._what, self._clock = per_minute, what, clock
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        """For each recent caller: requests left, and at which time. A forgotten caller starts with the full number."""

    def take(self, caller: Hashable) -> None:
        """Count a request of a caller.

        Raises:
            RegistryRequestRefused: with status 429, and when to retry.
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
