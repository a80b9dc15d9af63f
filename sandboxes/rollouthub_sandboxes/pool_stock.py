"""The stock of one kind in a warm pool: ready items, items being started, and demand."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

Key = TypeVar("Key")
Thing = TypeVar("Thing")

FIRST_BACK_OFF_SECONDS, LONGEST_BACK_OFF_SECONDS = 1.0, 60.0
_SHORTEST_WINDOW, _LONGEST_WINDOW = 2.0, 60.0
_REFILLS_AHEAD = 4.0
"""Arrivals come in clumps: keep what is taken in several refill times, not in one."""


@dataclass(eq=False, slots=True)
class Held(Generic[Thing]):
    """A started thing and the task that keeps it."""

    thing: Thing
    since: float
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set by whoever no longer wants it; its task then ends it."""


@dataclass(eq=False, slots=True)
class Waiter(Generic[Key, Thing]):
    """Somebody who found nothing ready."""

    shelf: "Shelf[Key, Thing]"
    ready: anyio.Event = field(default_factory=anyio.Event)
    held: Held[Thing] | None = None
    error: Exception | None = None


@dataclass(eq=False, slots=True)
class Shelf(Generic[Key, Thing]):
    """One key's warm things and its demand."""

    key: Key
    warm: list[Held[Thing]] = field(default_factory=list[Held[Thing]])
    """Never used. The newest is handed out first, so that the oldest are those nobody wants."""
    making: int = 0
    waiting: int = 0
    live: int = 0
    floor: int = 0
    """What `warm` asked for; forgotten when the key is no longer wanted."""
    wanted_at: float = -math.inf
    made_seconds: float = 0.0
    """A moving mean of what one takes to make."""
    failures: int = 0
    """In a row, of making."""
    retry_at: float = -math.inf
    error: Exception | None = None
    """Of the last one that was made for nobody in particular, until one succeeds."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    _taken_at: deque[float] = field(default_factory=deque[float])

    def take(self, now: float, longest: float) -> None:
        """Somebody wants one; what was wanted longer ago than `longest` is forgotten."""
        self.wanted_at = now
        self._taken_at.append(now)
        while self._taken_at[0] < now - max(longest, _LONGEST_WINDOW):
            self._taken_at.popleft()

    def target(self, now: float, idle_seconds: float, most: int) -> int:
        """How many should be ready: what was taken over a few refill times, and at least one for a key in use.

        A key taken once is not in demand yet: a task's own image may never be asked for again.
        """
        if now - self.wanted_at > idle_seconds:
            return 0
        window = min(max(_REFILLS_AHEAD * self.made_seconds, _SHORTEST_WINDOW), _LONGEST_WINDOW)
        recent = sum(1 for at in self._taken_at if at >= now - window)
        is_in_demand = len(self._taken_at) > 1 and now - self._taken_at[-2] <= idle_seconds
        return min(max(self.floor, max(recent, 1) if is_in_demand else 0), most)

    def made(self, seconds: float) -> None:
        """One more was made."""
        self.made_seconds = seconds if self.made_seconds == 0 else 0.8 * self.made_seconds + 0.2 * seconds
        self.failures, self.retry_at, self.error = 0, -math.inf, None

    def failed(self, now: float, error: Exception) -> None:
        """One could not be made; the background waits before it tries again, longer each time."""
        pause = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(self.failures, 10), LONGEST_BACK_OFF_SECONDS)
        self.failures, self.retry_at, self.error = self.failures + 1, now + pause, error

    def tell(self) -> None:
        """Wake whoever waits for this shelf to change."""
        self.changed.set()
        self.changed = anyio.Event()

    @property
    def is_bare(self) -> bool:
        """Whether nothing of it is there or on its way."""
        return not (self.warm or self.making or self.waiting or self.live)
