"""A run as those see it who look in while it plays: what is in flight, and what can be changed."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import anyio

from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.pool import Pool, Staffed
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import Retrying
from rollouthub.protocols import EnvironmentHost, Model
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter
from rollouthub.tracing import Tracer

logger = logging.getLogger(__name__)

RunState = Literal["running", "paused", "finishing", "stopping"]
"""`paused` starts nothing new for now, `finishing` never again; `stopping` ends what is in flight, too."""
RunEnding = Literal["finished", "interrupted", "failed"]


@dataclass(frozen=True)
class RunFacts:
    """What does not change while a run plays."""

    run_id: str
    directory: Path
    environments: tuple[str, ...]
    agent: str
    model: str | None
    planned: int | None
    """Rollouts; None where that is not known."""


@dataclass(frozen=True)
class RunParts:
    """What a run is made of in this process, for those who measure it."""

    models: Mapping[str, Model]
    """By role; the run's own is `policy`."""
    hosts: tuple[EnvironmentHost, ...]
    writer: RunWriter
    pool: Pool | None
    """None where something else than a pool decides what is played."""
    tracer: Tracer | None = None


class Watcher(Protocol):
    """Who hears of every attempt, from inside the event loop: must return at once."""

    def began(self, attempt: InFlight) -> None:
        """An attempt is set up."""
        ...

    def moved(self, attempt: InFlight) -> None:
        """An attempt is in another state."""
        ...

    def ended(self, attempt: InFlight, rollout: Rollout) -> None:
        """An attempt is over, and this is its record."""
        ...


class RunEnder(Protocol):
    """Who can end a run early."""

    def interrupt(self) -> None:
        """Start nothing new; what is in flight finishes. As one Ctrl-C."""
        ...

    def cancel(self) -> None:
        """End what is in flight, too. As a second Ctrl-C."""
        ...


class LiveRun:
    """A run in flight. Costs a look into a dictionary for every change of an attempt's state while nobody watches."""

    def __init__(self, stop: StopSignal, ender: RunEnder | None = None) -> None:
        self.attempts: dict[str, InFlight] = {}
        """Rollout id → the attempt in flight, oldest first."""
        self.watchers: list[Watcher] = []
        self.begun = anyio.Event()
        self.facts: RunFacts | None = None
        """None before the run plays."""
        self.parts: RunParts | None = None
        """None before the run plays."""
        self.began_at = time.time()
        self.ending: RunEnding | None = None
        """None while it plays."""
        self._stop, self._ender = stop, ender
        self._pool: Pool | None = None
        self._is_cancelled = False

    @property
    def state(self) -> RunState:
        """Whether it still starts new episodes."""
        if self._is_cancelled:
            return "stopping"
        if self._stop.is_set:
            return "finishing"
        return "paused" if self._pool is not None and self._pool.is_held else "running"

    @property
    def concurrency(self) -> int | None:
        """Episodes played at a time; None where something else than a pool of this process decides that."""
        return None if self._pool is None else self._pool.concurrency

    def begin(self, facts: RunFacts, pool: Pool | None) -> None:
        """The run is about to play."""
        self.facts, self._pool = facts, pool
        self.began_at = time.time()
        self.begun.set()

    def end(self, ending: RunEnding) -> None:
        """The run plays no more; the first ending stands."""
        self.ending = self.ending or ending

    def moved(self, attempt: InFlight) -> None:
        """An attempt has moved on."""
        rollout_id = attempt.item.rollout_id
        is_new = self.attempts.get(rollout_id) is not attempt
        if is_new:
            self.attempts[rollout_id] = attempt
        if not self.watchers:
            return
        for watcher in tuple(self.watchers):
            try:
                (watcher.began if is_new else watcher.moved)(attempt)
            except Exception:
                self._lose(watcher)

    def ended(self, rollout: Rollout) -> None:
        """An attempt is over; said twice, it counts once."""
        attempt = self.attempts.pop(rollout.rollout_id, None)
        if attempt is None:
            return
        for watcher in tuple(self.watchers):
            try:
                watcher.ended(attempt, rollout)
            except Exception:
                self._lose(watcher)

    def forget(self, attempt: InFlight) -> None:
        """An attempt is not in flight: nobody began to play it."""
        if self.attempts.get(attempt.item.rollout_id) is attempt:
            del self.attempts[attempt.item.rollout_id]

    def _lose(self, watcher: Watcher) -> None:
        """Go on without a watcher that broke: the run is worth more than who looks at it."""
        logger.exception("a watcher of the run broke, and hears no more of it")
        self.watchers.remove(watcher)

    def interrupt(self) -> None:
        """Start nothing new; what is in flight finishes."""
        if self._ender is None:
            self._stop.set("someone who watched the run ended it")
        else:
            self._ender.interrupt()

    def cancel(self) -> bool:
        """End what is in flight, too; False where nobody could do that."""
        if self._ender is None:
            return False
        self._is_cancelled = True
        self._ender.cancel()
        return True

    def resize(self, concurrency: int) -> bool:
        """Play so many episodes at a time; False where there is no pool to do so."""
        if self._pool is None:
            return False
        self._pool.resize(concurrency)
        return True

    def hold(self, is_held: bool) -> bool:
        """Start nothing new until told to go on, or go on; False where there is no pool to do so."""
        if self._pool is None:
            return False
        self._pool.hold(is_held)
        return True

    @property
    def undecided(self) -> Sequence[str]:
        """Samples that ended without a score and may be tried again if somebody asks: the latest, oldest first."""
        return () if self._pool is None else self._pool.undecided

    def retry(self, rollout_id: str) -> Retrying:
        """Play a sample again that ended without a result."""
        return "on_demand" if self._pool is None else self._pool.retry(rollout_id)

    @property
    def workers(self) -> int | None:
        """Processes that play; None where this one does."""
        return self._pool.workers if isinstance(self._pool, Staffed) else None

    def resize_workers(self, workers: int) -> bool:
        """Play with so many processes; False where this one plays."""
        if not isinstance(self._pool, Staffed):
            return False
        self._pool.resize_workers(workers)
        return True
