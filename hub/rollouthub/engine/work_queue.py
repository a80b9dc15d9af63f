"""Feeds players: reads samples as there is room for them, and waits for what is to be tried again."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Literal, Protocol, runtime_checkable

import anyio

from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import QueuedAttempt, Schedule
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ServerGone
from rollouthub.rollout import Rollout

MOST_READ_AHEAD = 4096
"""Samples of other environments that are held while one's is looked for."""
READ_AT_ONCE = 16
"""Samples read in one go: each takes a quarter of the CPU that it takes alone, in between everything else."""
READ_SECONDS = 0.001
"""No further one is read after this long, so that samples which take time to make hold nothing up."""

Retrying = Literal["queued", "waiting", "over", "on_demand", "unknown"]
"""What came of asking for another attempt at a sample.

`waiting`: it is to be played anyway; `over`: nothing new begins any more; `on_demand`: who asks for samples decides
that; `unknown`: no sample of that name is known to have ended without a result.
"""


@runtime_checkable
class OnDemand(Protocol):
    """An iterator of samples that come on demand: now there may be none, and later some.

    It is read only while it has a next one, so that nobody waits in it while something else is to be tried again.
    """

    @property
    def has_next(self) -> bool:
        """Whether reading gives a sample, or the end, at once."""
        ...

    def on_change(self, told: Callable[[], None]) -> None:
        """Tell this one whenever that becomes true."""
        ...

    def settled(self, item: Sample) -> None:
        """No further attempt at a sample follows; its last record was handed to the sink."""
        ...


class WorkQueue:
    """A schedule over an iterator of samples. What is handed out comes back through `ended`, `lost` or `give_back`."""

    def __init__(self, items: AsyncIterator[Sample], schedule: Schedule, stop: StopSignal) -> None:
        self.schedule = schedule
        self._items, self._stop = items, stop
        self._on_demand = items if isinstance(items, OnDemand) else None
        self._is_exhausted = False
        self.is_held = False
        """Whether nothing new is handed out for now."""
        # Tasks may come over a wire, and one reader at a time may wait for them.
        self._turn = anyio.Lock(fast_acquire=True)
        self._changed: anyio.Event | None = None
        stop.on_set(self.wake)
        if self._on_demand is not None:
            self._on_demand.on_change(self.wake)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to play, now or later."""
        return self._stop.is_set or (self._is_exhausted and self.schedule.is_idle)

    async def next(self, environment: str = "", *, wanted: Callable[[], bool] = lambda: True) -> QueuedAttempt | None:
        """The next attempt, waited for as long as there may be one; None where there is none, or it is not wanted."""
        while wanted() and not self.is_over:
            work = await self.at_once(environment, wanted=wanted)
            if work is not None:
                return work
            if self.is_over or not wanted():
                break
            await self.wait(environment)
        return None

    async def at_once(
        self, environment: str = "", *, wanted: Callable[[], bool] = lambda: True
    ) -> QueuedAttempt | None:
        """The next attempt, where there is one by now."""
        while not self._stop.is_set:
            if self.is_held and (self.schedule.waiting or self._on_demand is not None):
                return None  # else reading on shows whether there is anything left to hold back
            work = self.schedule.take(anyio.current_time(), environment)
            if work is not None or self._is_exhausted:
                return work
            async with self._turn:
                if not wanted():
                    return None
                if self.schedule.read(environment) or self.schedule.waiting > MOST_READ_AHEAD:
                    if self.schedule.read(environment):
                        continue
                    return None
                if self._on_demand is not None and not self._on_demand.has_next:
                    return None
                await self._read(environment)
        return None

    async def wait(self, environment: str = "") -> None:
        """Until something changed, or what is to be tried again is due."""
        changed = self._changed = self._changed or anyio.Event()
        due_in = None if self.is_held else self.schedule.due_in(anyio.current_time(), environment)
        with anyio.move_on_after(due_in):
            await changed.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until something is so, asked whenever anything changed."""
        while not condition():
            changed = self._changed = self._changed or anyio.Event()
            await changed.wait()

    def ended(self, work: QueuedAttempt, rollout: Rollout) -> None:
        """An attempt is over."""
        retried = self.schedule.retried
        reason = self.schedule.ended(work, rollout, anyio.current_time())
        if reason is not None and not self._stop.is_set:
            self._stop.set(reason)
        if self._on_demand is not None and self.schedule.retried == retried:
            self._on_demand.settled(work.item)
        self.wake()

    def lost(self, work: QueuedAttempt) -> bool:
        """Whoever played it is gone; whether it is tried again."""
        is_again = self.schedule.lost(work, anyio.current_time()) and not self._stop.is_set
        if self._on_demand is not None and not is_again:
            self._on_demand.settled(work.item)
        self.wake()
        return is_again

    def hold(self, is_held: bool) -> None:
        """Hand out nothing new from now on, or go on."""
        self.is_held = is_held
        self.wake()

    def retry(self, rollout_id: str) -> Retrying:
        """Try a sample again that ended without a result, because somebody asked."""
        if self.is_over:
            return "over"
        if self._on_demand is not None:
            return "on_demand"
        if self.schedule.retry(rollout_id, anyio.current_time()):
            self.wake()
            return "queued"
        return "waiting" if self.schedule.waits(rollout_id) else "unknown"

    def give_back(self, work: QueuedAttempt) -> None:
        """It was handed out, and nobody began to play it."""
        self.schedule.give_back(work)
        self.wake()

    def wake(self) -> None:
        """Let those who wait look again."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _read(self, environment: str) -> None:
        began = time.perf_counter()
        for _ in range(1 if self._on_demand is not None else READ_AT_ONCE):
            try:
                item = await anext(self._items, None)
            except ServerGone as error:
                self._stop.set(str(error))
                return
            if item is None:
                self._is_exhausted = True
                self.wake()
                return
            self.schedule.add(item)
            if self.schedule.read(environment) == 0:
                self.wake()  # it is another player's, who may wait for nothing else
            if time.perf_counter() - began > READ_SECONDS:
                return
