"""The rate limiter that every try of a call passes: connections, and requests and tokens of the last sixty seconds."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from rollouthub.models.router.quota_watch import QuotaWatch
from rollouthub.models.router.waiting_line import WaitingLine

WINDOW_SECONDS = 60.0
# What a wait is at least, so that a clock which rounds down does not make us ask it a thousand times.
_SHORTEST_WAIT = 0.001


@dataclass(slots=True, eq=False)
class Begun:
    """A try that was admitted."""

    at: float
    tokens: int
    """Tokens that the try counts for: the reserved number while it is in flight, then the actual one."""
    is_counted: bool = True
    """Whether the try is still within the last sixty seconds."""


_UNCOUNTED = Begun(0.0, 0, is_counted=False)


class RateLimiter:
    """Admits tries in order of arrival, and only while every limit holds.

    A try counts for sixty seconds from its start, however it ends. The window slides: in any sixty seconds no more than
    `requests_per_minute` tries begin, and their tokens are at most `tokens_per_minute`.
    """

    def __init__(
        self,
        connections: int,
        requests_per_minute: int | None,
        tokens_per_minute: int | None,
        now: Callable[[], float],
        owner: str = "the model",
    ) -> None:
        self.in_flight = 0
        self._connections = connections
        self._requests_limit, self._tokens_limit = requests_per_minute, tokens_per_minute
        self._whole = requests_per_minute, tokens_per_minute
        self._counts = requests_per_minute is not None or tokens_per_minute is not None
        self._now = now
        self._begun: deque[Begun] = deque()
        self._tokens = 0
        self._line = WaitingLine()
        self._requests_watch = QuotaWatch(f"{owner}: requests_per_minute = {requests_per_minute}")
        self._tokens_watch = QuotaWatch(f"{owner}: tokens_per_minute = {tokens_per_minute}")

    @property
    def limit(self) -> int:
        """How many tries may be in flight at once."""
        return self._connections

    @property
    def waiting(self) -> int:
        """How many tries wait to begin."""
        return len(self._line)

    def try_enter(self, tokens: int) -> Begun | None:
        """Begin a try at once; None if others wait or a limit does not allow it."""
        if len(self._line) or self._seconds_left(tokens) > 0:
            return None
        return self._begin(tokens)

    async def enter(self, tokens: int, has_room: Callable[[], bool] = lambda: True) -> Begun:
        """Begin a try when it is first in line, every limit allows it, and `has_room` is true.

        A try with more tokens than the limit, which may have been lowered meanwhile, has the minute to itself.
        `has_room` is called again whenever `changed` is called.
        """
        await self._line.wait(lambda: self._seconds_left(tokens) if has_room() else math.inf)
        return self._begin(tokens)

    def share(self, sharers: int) -> None:
        """Use an equal share of the request and token limits; the other sharers use the rest."""
        self._requests_limit, self._tokens_limit = (whole and max(1, whole // sharers) for whole in self._whole)
        self._line.changed()

    def changed(self) -> None:
        """Let the first in line check again whether there is room."""
        self._line.changed()

    def leave(self, begun: Begun, tokens: int | None) -> None:
        """End a try; with `tokens` of None, the reserved tokens stay counted."""
        self.in_flight -= 1
        if tokens is not None and begun.is_counted:
            self._tokens += tokens - begun.tokens
            begun.tokens = tokens
            if self._tokens_limit is not None:
                self._tokens_watch.used(self._tokens / self._tokens_limit)
        self._line.changed()

    def withdraw(self, begun: Begun) -> None:
        """Undo the admission of a try that was not made: it does not count."""
        if begun.is_counted:
            self._begun.remove(begun)
            begun.is_counted = False
            self._tokens -= begun.tokens
        self.in_flight -= 1
        self._line.changed()

    def _begin(self, tokens: int) -> Begun:
        self.in_flight += 1
        if not self._counts:
            return _UNCOUNTED
        begun = Begun(self._now(), tokens)
        self._begun.append(begun)
        self._tokens += tokens
        if self._requests_limit is not None:
            self._requests_watch.used(len(self._begun) / self._requests_limit)
        return begun

    def _seconds_left(self, tokens: int) -> float:
        """Seconds until a try of so many tokens may begin; infinity if a try in flight must end first."""
        if self.in_flight >= self._connections:
            return math.inf
        if not self._counts:
            return 0.0
        now, begun = self._now(), self._begun
        while begun and now - begun[0].at >= WINDOW_SECONDS:
            gone = begun.popleft()
            gone.is_counted = False
            self._tokens -= gone.tokens
        blocker: Begun | None = None
        if self._requests_limit is not None and len(begun) >= self._requests_limit:
            blocker = begun[len(begun) - self._requests_limit]
        if self._tokens_limit is not None:
            excess = self._tokens + min(tokens, self._tokens_limit) - self._tokens_limit
            if excess > 0:
                blocker = self._last_in_the_way(excess, blocker)
        if blocker is None:
            return 0.0
        return max(blocker.at + WINDOW_SECONDS - now, _SHORTEST_WAIT)

    def _last_in_the_way(self, excess: int, other: Begun | None) -> Begun | None:
        """The latest try that must leave the window before there is room; `other` is one that must leave in any
        case.
        """
        for begun in self._begun:
            excess -= begun.tokens
            if excess <= 0:
                return begun if other is None or begun.at > other.at else other
        return other
