"""Hands attempts to players: reads samples as players become free, and waits for retries that are due."""

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
"""Most samples held while the queue looks for a sample of one environment."""
READ_AT_ONCE = 16
"""Number of samples read in one batch: in a batch, each takes a quarter of the CPU time that it takes alone."""
READ_SECONDS = 0.001
"""Seconds after which a batch ends, so that samples that are slow to make do not block the event loop."""

Retrying = Literal["queued", "waiting", "over", "on_demand", "unknown"]
"""The answer to a request to retry a sample.

`queued`: it will be retried; `waiting`: it is to be played anyway; `over`: the run starts nothing more; `on_demand`:
the caller decides what is played; `unknown`: no sample of this id is known to have ended without a result.
"""


@runtime_checkable
class OnDemand(Protocol):
    """An iterator that yields samples on demand: it may have none now, and some later.

    The queue reads it only while `has_next` is true, so that no player blocks in it while a retry is due.
    """

    @property
    def has_next(self) -> bool:
        """Whether the next read returns at once, with a sample or the end."""
        ...

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `told` whenever `has_next` becomes true."""
        ...

    def settled(self, sample: Sample) -> None:
        """Note that a sample gets no further attempt; its last record was handed to the sink."""
        ...


class WorkQueue:
    """A `Schedule` fed from an iterator of samples. Each attempt handed out comes back by `ended`, `lost` or
    `give_back`.
    """

    def __init__(
        self,
        items: AsyncIterator[Sample],
        schedule: Schedule,
        stop: StopSignal,
        settled: Callable[[Sample], None] = lambda sample: None,
    ) -> None:
        """`settled` is called with a sample once it gets no further attempt unless a person asks for one."""
        self.schedule = schedule
        self._settled = settled
        self._items, self._stop = items, stop
        self._on_demand = items if isinstance(items, OnDemand) else None
        self._is_exhausted = False
        self.is_held = False
        """Whether the queue is paused: it hands out nothing."""
        # Tasks may come over a wire, and one reader at a time may wait for them.
        self._turn = anyio.Lock(fast_acquire=True)
        self._changed: anyio.Event | None = None
        self._watchers = 0
        """Number of those who wait in `until`."""
        stop.on_set(self.wake)
        if self._on_demand is not None:
            self._on_demand.on_change(self.wake)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to play, now or later."""
        return self._stop.is_set or (self._is_exhausted and self.schedule.is_idle)

    async def next(self, environment: str = "", *, wanted: Callable[[], bool] = lambda: True) -> QueuedAttempt | None:
        """Wait for the next attempt; None if nothing is left to play, or `wanted` returns false."""
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
        """The next attempt, if one is available now, else None."""
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
        """Wait until the queue changes, or a retry is due."""
        changed = self._changed = self._changed or anyio.Event()
        due_in = None if self.is_held else self.schedule.due_in(anyio.current_time(), environment)
        with anyio.move_on_after(due_in):
            await changed.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked after each change of the queue."""
        self._watchers += 1
        try:
            while not condition():
                changed = self._changed = self._changed or anyio.Event()
                await changed.wait()
        finally:
            self._watchers -= 1

    def ended(self, work: QueuedAttempt, rollout: Rollout) -> None:
        """Note the end of an attempt."""
        retried = self.schedule.retried
        reason = self.schedule.ended(work, rollout, anyio.current_time())
        if reason is not None and not self._stop.is_set:
            self._stop.set(reason)
        is_retried = self.schedule.retried != retried
        if not is_retried:
            self._no_more_of(work.sample)
        # Once all is read, another's end means nothing to thousands who wait, but for a retry and the last one.
        if not self._is_exhausted or is_retried or self.is_over or self._watchers:
            self.wake()

    def lost(self, work: QueuedAttempt) -> bool:
        """Note that the worker which played an attempt died; True if the sample is retried."""
        is_again = self.schedule.lost(work, anyio.current_time()) and not self._stop.is_set
        if not is_again:
            self._no_more_of(work.sample)
        self.wake()
        return is_again

    def _no_more_of(self, sample: Sample) -> None:
        self._settled(sample)
        if self._on_demand is not None:
            self._on_demand.settled(sample)

    def hold(self, is_held: bool) -> None:
        """Pause or resume handing out attempts."""
        self.is_held = is_held
        self.wake()

    def retry(self, rollout_id: str) -> Retrying:
        """Retry a sample that ended without a result, because a person asked."""
        if self.is_over:
            return "over"
        if self._on_demand is not None:
            return "on_demand"
        if self.schedule.retry(rollout_id, anyio.current_time()):
            self.wake()
            return "queued"
        return "waiting" if self.schedule.waits(rollout_id) else "unknown"

    def give_back(self, work: QueuedAttempt) -> None:
        """Put back an attempt that was handed out and never started."""
        self.schedule.give_back(work)
        self.wake()

    def wake(self) -> None:
        """Wake those who wait for a change of the queue."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def _read(self, environment: str) -> None:
        began = time.perf_counter()
        for _ in range(1 if self._on_demand is not None else READ_AT_ONCE):
            try:
                sample = await anext(self._items, None)
            except ServerGone as error:
                self._stop.set(str(error))
                return
            if sample is None:
                self._is_exhausted = True
                self.wake()
                return
            self.schedule.add(sample)
            if self.schedule.read(environment) == 0:
                self.wake()  # it is another player's, who may wait for nothing else
            if time.perf_counter() - began > READ_SECONDS:
                return
