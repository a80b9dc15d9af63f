"""The gate every try of a call passes: connections, requests and tokens of the last sixty seconds."""

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
    """A try that was let in."""

    at: float
    tokens: int
    """What it counts for: reserved while it is in flight, then what it took."""
    is_counted: bool = True
    """Whether it is still in the window."""


_UNCOUNTED = Begun(0.0, 0, is_counted=False)


class RateLimiter:
    """Lets tries begin in order of arrival, and only while every limit holds.

    A try counts from the moment it begins, for sixty seconds, however it ends. The window slides: in any sixty seconds
    no more than `requests_per_minute` begin, and those that begin count for no more than `tokens_per_minute`.
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
        """How many tries are waiting to begin."""
        return len(self._line)

    def try_enter(self, tokens: int) -> Begun | None:
        """Begin at once; None where others wait or a limit does not allow it."""
        if len(self._line) or self._seconds_left(tokens) > 0:
            return None
        return self._begin(tokens)

    async def enter(self, tokens: int, has_room: Callable[[], bool] = lambda: True) -> Begun:
        """Begin as soon as it is our turn, every limit allows it, and there is room where it is to go.

        Tokens beyond their limit, which may have shrunk since they were counted, have the minute to themselves;
        `has_room` is asked again whenever `changed` is called.
        """
        await self._line.wait(lambda: self._seconds_left(tokens) if has_room() else math.inf)
        return self._begin(tokens)

    def share(self, sharers: int) -> None:
        """Keep to one of so many equal parts of the requests and tokens from now on: others use the rest."""
        self._requests_limit, self._tokens_limit = (whole and max(1, whole // sharers) for whole in self._whole)
        self._line.changed()

    def changed(self) -> None:
        """Let the first in line look again whether there is room."""
        self._line.changed()

    def leave(self, begun: Begun, tokens: int | None) -> None:
        """The try is over, and took so many tokens; None leaves what was reserved."""
        self.in_flight -= 1
        if tokens is not None and begun.is_counted:
            self._tokens += tokens - begun.tokens
            begun.tokens = tokens
            if self._tokens_limit is not None:
                self._tokens_watch.used(self._tokens / self._tokens_limit)
        self._line.changed()

    def withdraw(self, begun: Begun) -> None:
        """The try was let in but never begun: it does not count."""
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
        """How long until a try of so many tokens may begin, as things stand; infinite until one in flight ends."""
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
        """The youngest try that must have left the window before there is room, `other` among them."""
        for begun in self._begun:
            excess -= begun.tokens
            if excess <= 0:
                return begun if other is None or begun.at > other.at else other
        return other
