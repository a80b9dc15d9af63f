"""The stock of one key in a warm pool: its ready items, items being started, and demand."""

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
"""The target is the demand over this many start times, since requests come in bursts."""


@dataclass(eq=False, slots=True)
class Held(Generic[Thing]):
    """A started thing of a pool, and the event that ends it."""

    thing: Thing
    since: float
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when the thing is no longer wanted; its task then ends it."""


@dataclass(eq=False, slots=True)
class Waiter(Generic[Key, Thing]):
    """A caller who waits because nothing was ready."""

    stock: "KeyStock[Key, Thing]"
    ready: anyio.Event = field(default_factory=anyio.Event)
    held: Held[Thing] | None = None
    error: Exception | None = None


@dataclass(eq=False, slots=True)
class KeyStock(Generic[Key, Thing]):
    """The warm things of one key, and the demand for them."""

    key: Key
    warm: list[Held[Thing]] = field(default_factory=list[Held[Thing]])
    """Started and unused. The newest is handed out first, so that the oldest can be ended as idle."""
    making: int = 0
    waiting: int = 0
    live: int = 0
    floor: int = 0
    """The count that `WarmPool.warm` asked for; it ends with the demand for the key."""
    wanted_at: float = -math.inf
    made_seconds: float = 0.0
    """Moving mean of the seconds that a start takes."""
    failures: int = 0
    """Failed starts in a row."""
    retry_at: float = -math.inf
    error: Exception | None = None
    """The last start's error; None after a start that succeeded."""
    changed: anyio.Event = field(default_factory=anyio.Event)
    _taken_at: deque[float] = field(default_factory=deque[float])

    def take(self, now: float, longest: float) -> None:
        """Record a request at `now`; requests older than `longest` seconds, or a minute if that is more, are
        forgotten.
        """
        self.wanted_at = now
        self._taken_at.append(now)
        while self._taken_at[0] < now - max(longest, _LONGEST_WINDOW):
            self._taken_at.popleft()

    def target(self, now: float, idle_seconds: float, most: int) -> int:
        """How many should be ready: as many as were requested within a few start times, at least one for a key in
        demand.

        A key requested only once is not in demand: a task's own image may never be requested again.
        """
        if now - self.wanted_at > idle_seconds:
            return 0
        window = min(max(_REFILLS_AHEAD * self.made_seconds, _SHORTEST_WINDOW), _LONGEST_WINDOW)
        recent = sum(1 for at in self._taken_at if at >= now - window)
        is_in_demand = len(self._taken_at) > 1 and now - self._taken_at[-2] <= idle_seconds
        return min(max(self.floor, max(recent, 1) if is_in_demand else 0), most)

    def made(self, seconds: float) -> None:
        """Record a start that took `seconds`: updates the mean and forgets earlier failures."""
        self.made_seconds = seconds if self.made_seconds == 0 else 0.8 * self.made_seconds + 0.2 * seconds
        self.failures, self.retry_at, self.error = 0, -math.inf, None

    def failed(self, now: float, error: Exception) -> None:
        """Record a failed start; the pause before the next start ahead of use doubles each time."""
        pause = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(self.failures, 10), LONGEST_BACK_OFF_SECONDS)
        self.failures, self.retry_at, self.error = self.failures + 1, now + pause, error

    def tell(self) -> None:
        """Wake the tasks that wait for a change of this stock."""
        self.changed.set()
        self.changed = anyio.Event()

    @property
    def is_bare(self) -> bool:
        """Whether the stock holds nothing, starts nothing, and has no waiting episode."""
        return not (self.warm or self.making or self.waiting or self.live)
