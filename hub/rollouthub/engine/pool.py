"""Where samples are collected: the small interface of pools, and the one that lives in this process."""

import contextlib
import logging
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

logger = logging.getLogger(__name__)

HIRING_SECONDS = 0.005
"""How long new players are hired before others get their turn, which is so many times as long."""
HIRING_REST = 1.5
LONGEST_REST = 0.1
"""However long it took: what holds the loop meanwhile says nothing about how busy the others are."""
LAST_RECORD_SECONDS = 10.0
"""How long the record of an attempt cut short may wait for the sink."""


class Sink(Protocol):
    """Where records go."""

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample are already kept."""
        ...

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        """Keep a record."""
        ...

    def track(self, attempt: InFlight) -> None:
        """Show that an attempt has moved on."""
        ...

    def forget(self, attempt: InFlight) -> None:
        """Show no more an attempt that was handed to a player and not begun."""
        ...


class Pool(Protocol):
    """Collects items: each until it is scored, failed for good, or out of attempts."""

    @property
    def concurrency(self) -> int:
        """How many are played at a time."""
        ...

    def resize(self, concurrency: int) -> None:
        """Play so many at a time from now on; where that is fewer, what is in flight still finishes."""
        ...

    @property
    def is_held(self) -> bool:
        """Whether it starts nothing new for now."""
        ...

    def hold(self, is_held: bool) -> None:
        """Start nothing new from now on, or go on; what is in flight goes on either way."""
        ...

    @property
    def undecided(self) -> Sequence[str]:
        """Samples that ended without a score and are not tried again by themselves: the latest, oldest first."""
        ...

    def retry(self, rollout_id: str) -> Retrying:
        """Play a sample again that ended without a result."""
        ...

    async def collect(self, items: AsyncIterator[Sample], sink: Sink) -> None:
        """Play every item and hand each attempt's record to the sink as it ends."""
        ...


@runtime_checkable
class Staffed(Protocol):
    """A pool that plays in processes of its own, as many as are wanted."""

    @property
    def workers(self) -> int:
        """How many are wanted now."""
        ...

    def resize_workers(self, workers: int) -> None:
        """Play with so many from now on; those that are too many finish what they have."""
        ...


class LocalPool:
    """Episodes as coroutines of this process."""

    def __init__(self, concurrency: int, retries: Retries, stop: StopSignal) -> None:
        self._concurrency, self._retries, self._stop = concurrency, retries, stop
        self._at_work = 0
        self._hire: Callable[[], None] | None = None
        self._is_hiring = self._is_held = False
        self._feed: WorkQueue | None = None

    @property
    def concurrency(self) -> int:
        """How many are played at a time."""
        return self._concurrency

    def resize(self, concurrency: int) -> None:
        """Play so many at a time from now on; where that is fewer, what is in flight still finishes."""
        self._concurrency = concurrency
        if self._hire is not None:
            self._hire()

    @property
    def is_held(self) -> bool:
        """Whether it starts nothing new for now."""
        return self._is_held

    def hold(self, is_held: bool) -> None:
        """Start nothing new from now on, or go on; what is in flight goes on either way."""
        self._is_held = is_held
        if self._feed is not None:
            self._feed.hold(is_held)

    @property
    def undecided(self) -> Sequence[str]:
        """Samples that ended without a score and are not tried again by themselves: the latest, oldest first."""
        return () if self._feed is None else self._feed.schedule.undecided

    def retry(self, rollout_id: str) -> Retrying:
        """Play a sample again that ended without a result."""
        return "over" if self._feed is None else self._feed.retry(rollout_id)

    async def collect(self, items: AsyncIterator[Sample], sink: Sink) -> None:
        """Play the items, `concurrency` at a time."""
        feed = self._feed = WorkQueue(items, Schedule(sink.attempts, self._retries), self._stop)
        feed.hold(self._is_held)
        try:
            async with anyio.create_task_group() as workers:

                async def fill() -> None:
                    """Hire bit by bit: thousands at once keep all waiting, then and whenever their answers come."""
                    try:
                        while self._at_work < self._concurrency and not feed.is_over:
                            began = anyio.current_time()
                            while self._at_work < self._concurrency and anyio.current_time() < began + HIRING_SECONDS:
                                self._at_work += 1
                                workers.start_soon(self._work, feed, sink)
                                await anyio.lowlevel.checkpoint()
                            await anyio.sleep(min(LONGEST_REST, HIRING_REST * (anyio.current_time() - began)))
                    finally:
                        self._is_hiring = False

                def hire() -> None:
                    feed.wake()  # some may have to go
                    if not self._is_hiring:
                        self._is_hiring = True
                        workers.start_soon(fill)

                self._hire = hire
                hire()
        finally:
            self._hire = self._feed = None

    async def _work(self, feed: WorkQueue, sink: Sink) -> None:
        try:
            while (work := await feed.next(wanted=self._has_room)) is not None:
                await self._play(work, feed, sink)
        finally:
            self._at_work -= 1

    def _has_room(self) -> bool:
        return self._at_work <= self._concurrency

    async def _play(self, work: QueuedAttempt, feed: WorkQueue, sink: Sink) -> None:
        """One attempt; its record is kept, however it ends."""
        attempt = Attempt(work.item, work.attempt, work.queued, sink.track)
        rollout: Rollout | None = None
        try:
            rollout = await attempt.play()
            await sink.add(rollout, attempt.media)
        except anyio.get_cancelled_exc_class():
            # Also what was finished and waited for a slow disk is kept.
            with (
                anyio.CancelScope(shield=True, deadline=anyio.current_time() + LAST_RECORD_SECONDS),
                contextlib.suppress(StoreError),
            ):
                await sink.add(rollout or attempt.cancelled(), attempt.media)
            raise
        feed.ended(work, rollout)
