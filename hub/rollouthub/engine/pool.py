"""Where samples are played: the interface of pools, and the pool of this process."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import anyio
import anyio.lowlevel

from rollouthub.engine.attempt import Attempt
from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.run_request import Retries
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import QueuedAttempt, Schedule
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import Retrying, WorkQueue
from rollouthub.errors import StoreError
from rollouthub.rollout import Rollout

STARTING_SECONDS = 0.005
"""Seconds for which new players are started before the event loop runs other tasks for `STARTING_REST` times as
long.
"""
STARTING_REST = 1.5
LONGEST_REST = 0.1
"""Longest such rest in seconds; a longer start was caused by something else that held the event loop."""
LAST_RECORD_SECONDS = 10.0
"""Seconds that writing the record of a cancelled attempt may take."""


class Sink(Protocol):
    """Receives the records of finished attempts, and the states of those in flight."""

    def attempts(self, rollout_id: str) -> int:
        """Number of attempts at a sample that are already stored."""
        ...

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        """Store the record of a finished attempt."""
        ...

    def track(self, attempt: InFlight) -> None:
        """Show the new state of an attempt."""
        ...

    def forget(self, attempt: InFlight) -> None:
        """Remove an attempt that leaves no record: it was never started, or is put off."""
        ...

    def settled(self, sample: Sample) -> None:
        """Note that a sample gets no further attempt unless a person asks for one; its last record was added."""
        ...


class Pool(Protocol):
    """Plays samples, each until it is scored, failed for good, or out of attempts."""

    @property
    def concurrency(self) -> int:
        """The most attempts in flight at a time."""
        ...

    def resize(self, concurrency: int) -> None:
        """Set the most attempts in flight; if there are more now, they still finish."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether the pool is paused: no attempt is started."""
        ...

    def hold(self, is_held: bool) -> None:
        """Pause or resume: start no attempt from now on, or start them again; attempts in flight go on."""
        ...

    @property
    def in_flight(self) -> int:
        """Number of attempts in flight."""
        ...

    @property
    def undecided(self) -> Sequence[str]:
        """Rollout ids of samples that ended without a result and are not retried automatically, oldest first; at
        most the latest 4096.
        """
        ...

    def retry(self, rollout_id: str) -> Retrying:
        """Play a sample again that ended without a result."""
        ...

    async def play(self, items: AsyncIterator[Sample], sink: Sink) -> None:
        """Play every sample and hand each attempt's record to the sink as it ends."""
        ...


@runtime_checkable
class ResizablePool(Protocol):
    """A pool whose attempts run in worker processes, whose number can be changed."""

    @property
    def workers(self) -> int:
        """The number of workers wanted now."""
        ...

    def resize_workers(self, workers: int) -> None:
        """Set the number of workers; surplus workers finish what they play."""
        ...


class QueuedPool:
    """What all pools share: pausing the queue that they play from, and putting samples back into it."""

    _queue: WorkQueue | None = None
    """The queue while the pool plays, else None."""
    _is_held = False

    @property
    def is_held(self) -> bool:
        """Whether the pool is paused: no attempt is started."""
        return self._is_held

    @property
    def in_flight(self) -> int:
        """Number of attempts in flight."""
        return 0 if self._queue is None else self._queue.schedule.in_flight

    def hold(self, is_held: bool) -> None:
        """Pause or resume: start no attempt from now on, or start them again; attempts in flight go on."""
        self._is_held = is_held
        if self._queue is not None:
            self._queue.hold(is_held)

    @property
    def undecided(self) -> Sequence[str]:
        """Rollout ids of samples that ended without a result and are not retried automatically, oldest first."""
        return () if self._queue is None else self._queue.schedule.undecided

    def retry(self, rollout_id: str) -> Retrying:
        """Play a sample again that ended without a result."""
        return "over" if self._queue is None else self._queue.retry(rollout_id)


class LocalPool(QueuedPool):
    """A pool that plays episodes as coroutines of this process."""

    def __init__(self, concurrency: int, retries: Retries, stop: StopSignal) -> None:
        self._concurrency, self._retries, self._stop = concurrency, retries, stop
        self._at_work = 0
        self._start_players: Callable[[], None] | None = None
        self._is_starting = False

    @property
    def concurrency(self) -> int:
        """The most attempts in flight at a time."""
        return self._concurrency

    def resize(self, concurrency: int) -> None:
        """Set the most attempts in flight; if there are more now, they still finish."""
        self._concurrency = concurrency
        if self._start_players is not None:
            self._start_players()

    async def play(self, items: AsyncIterator[Sample], sink: Sink) -> None:
        """Play the samples, at most `concurrency` at a time."""
        queue = self._queue = WorkQueue(items, Schedule(sink.attempts, self._retries), self._stop, sink.settled)
        queue.hold(self._is_held)
        try:
            async with anyio.create_task_group() as workers:

                async def fill() -> None:
                    """Start players in small batches: thousands started at once would block the event loop."""
                    try:
                        while self._at_work < self._concurrency and not queue.is_over:
                            began = anyio.current_time()
                            while self._at_work < self._concurrency and anyio.current_time() < began + STARTING_SECONDS:
                                self._at_work += 1
                                workers.start_soon(self._work, queue, sink)
                                await anyio.lowlevel.checkpoint()
                            await anyio.sleep(min(LONGEST_REST, STARTING_REST * (anyio.current_time() - began)))
                    finally:
                        self._is_starting = False

                def start_players() -> None:
                    queue.wake()  # some may have to go
                    if not self._is_starting:
                        self._is_starting = True
                        workers.start_soon(fill)

                self._start_players = start_players
                start_players()
        finally:
            self._start_players = self._queue = None

    async def _work(self, queue: WorkQueue, sink: Sink) -> None:
        try:
            while (work := await queue.next(wanted=self._has_room)) is not None:
                await self._play(work, queue, sink)
        finally:
            self._at_work -= 1

    def _has_room(self) -> bool:
        return self._at_work <= self._concurrency

    async def _play(self, work: QueuedAttempt, queue: WorkQueue, sink: Sink) -> None:
        """Play one attempt and store its record, also if it is cancelled."""
        attempt = Attempt(work.sample, work.attempt, work.queued, sink.track)
        rollout: Rollout | None = None
        try:
            rollout = await attempt.play()
            await sink.add(rollout, attempt.media)
        except anyio.get_cancelled_exc_class():
            if self._stop.is_put_off and rollout is None:
                sink.forget(attempt)
                raise
            # Also what was finished and waited for a slow disk is kept.
            with (
                anyio.CancelScope(shield=True, deadline=anyio.current_time() + LAST_RECORD_SECONDS),
                contextlib.suppress(StoreError),
            ):
                await sink.add(rollout or attempt.cancelled(), attempt.media)
            raise
        queue.ended(work, rollout)
