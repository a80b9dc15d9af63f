"""Where samples are collected: the small interface of pools, and the one that lives in this process."""

import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

import anyio

from envhub.engine.item import Item
from envhub.engine.play import Attempt
from envhub.engine.request import Retries
from envhub.errors import BudgetError, ServerGone, StoreError
from envhub.rollout import Rollout

logger = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 10.0
LAST_RECORD_SECONDS = 10.0
"""How long the record of an attempt cut short may wait for the sink."""
_HOPELESS = frozenset({BudgetError.__name__, ServerGone.__name__})
"""Faults that every later sample would meet, too."""


class Sink(Protocol):
    """Where records go."""

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample are already kept."""
        ...

    async def add(self, rollout: Rollout, media: Mapping[str, bytes]) -> None:
        """Keep a record."""
        ...

    def track(self, attempt: Attempt) -> None:
        """Show that an attempt has moved on."""
        ...


class StopSignal:
    """Asks a run to start nothing new; what is in flight finishes."""

    def __init__(self) -> None:
        self.is_set = False
        self.reason: str | None = None
        """Why, where the run itself asked."""
        self._event: anyio.Event | None = None

    def set(self, reason: str | None = None) -> None:
        """Ask; the first reason stands."""
        if not self.is_set:
            self.reason = reason
        self.is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self, seconds: float) -> None:
        """Wait for the signal, at most so long."""
        if not self.is_set:
            self._event = self._event or anyio.Event()
            with anyio.move_on_after(seconds):
                await self._event.wait()


class Pool(Protocol):
    """Collects items: each until it is scored, failed for good, or out of attempts."""

    async def collect(self, items: AsyncIterator[Item], sink: Sink) -> None:
        """Play every item and hand each attempt's record to the sink as it ends."""
        ...


class LocalPool:
    """Episodes as coroutines of this process."""

    def __init__(self, concurrency: int, retries: Retries, stop: StopSignal) -> None:
        self._concurrency, self._retries, self._stop = concurrency, retries, stop
        self._at_work = 0
        self._hire: Callable[[], None] | None = None

    @property
    def concurrency(self) -> int:
        """How many are played at a time."""
        return self._concurrency

    def resize(self, concurrency: int) -> None:
        """Play so many at a time from now on; where that is fewer, what is in flight still finishes."""
        self._concurrency = concurrency
        if self._hire is not None:
            self._hire()

    async def collect(self, items: AsyncIterator[Item], sink: Sink) -> None:
        """Play the items, `concurrency` at a time."""
        turn = anyio.Lock(fast_acquire=True)
        try:
            async with anyio.create_task_group() as workers:

                def hire() -> None:
                    while self._at_work < self._concurrency:
                        self._at_work += 1
                        workers.start_soon(self._work, items, turn, sink)

                self._hire = hire
                hire()
        finally:
            self._hire = None

    async def _work(self, items: AsyncIterator[Item], turn: anyio.Lock, sink: Sink) -> None:
        try:
            while not self._stop.is_set and self._at_work <= self._concurrency:
                try:
                    async with turn:  # tasks may come over a wire, and one reader at a time may wait for them
                        if self._at_work > self._concurrency:
                            return
                        item = await anext(items, None)
                except ServerGone as error:
                    self._stop.set(str(error))
                    return
                if item is None or self._stop.is_set:
                    return
                await self._collect(item, sink)
        finally:
            self._at_work -= 1

    async def _collect(self, item: Item, sink: Sink) -> None:
        """Attempt a sample until it is decided; every attempt is kept."""
        left = {"infrastructure_fault": self._retries.infrastructure, "verifier_fault": self._retries.verifier}
        number, waited, tries = sink.attempts(item.rollout_id), 0.0, 0
        while True:
            attempt = Attempt(item, number, waited, sink.track)
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
            kind = rollout.outcome.kind
            hopeless = next((fault for fault in rollout.faults if fault.type in _HOPELESS), None)
            if hopeless is not None and not self._stop.is_set:
                # With more money, or a server that works, `--resume` tries the rest.
                self._stop.set(hopeless.message)
            broken = [fault for fault in rollout.faults if fault.phase != "close"]
            if not left.get(kind) or self._stop.is_set or not all(fault.retryable for fault in broken):
                return
            left[kind] -= 1
            logger.info("%s attempt %d: %s; trying again", item.rollout_id, number, broken[0].message)
            started = anyio.current_time()
            await self._stop.wait(min(LONGEST_PAUSE_SECONDS, 0.25 * 2**tries) * random.uniform(0.5, 1.0))
            waited, number, tries = anyio.current_time() - started, number + 1, tries + 1
            if self._stop.is_set:
                return
