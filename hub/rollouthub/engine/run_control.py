"""A run as seen by those who watch and control it: its attempts in flight, and the actions on them."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import anyio

from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.pool import Pool, ResizablePool
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.engine.work_queue import Retrying
from rollouthub.generation import Model
from rollouthub.protocols import EnvironmentHost
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter
from rollouthub.tracing import Tracer

logger = logging.getLogger(__name__)

RunState = Literal["running", "paused", "finishing", "stopping"]
"""`paused`: no attempt is started until resumed; `finishing`: none is started any more; `stopping`: those in flight
are cancelled, too.
"""
RunEnding = Literal["finished", "interrupted", "failed"]


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run that do not change while it plays."""

    run_id: str
    directory: Path
    environments: tuple[str, ...]
    agent: str
    model: str | None
    planned: int | None
    """Number of planned rollouts; None if unknown."""


@dataclass(frozen=True)
class RunParts:
    """The parts of a run in this process, for metrics."""

    models: Mapping[str, Model]
    """Role → model; the role of the model that plays is `policy`."""
    hosts: tuple[EnvironmentHost, ...]
    writer: RunWriter
    pool: Pool | None
    """The pool; None if the run has none, because its caller decides what is played."""
    tracer: Tracer | None = None


class Watcher(Protocol):
    """Gets the events of every attempt, inside the event loop; its methods must return at once."""

    def began(self, attempt: InFlight) -> None:
        """Called when an attempt starts its set-up."""
        ...

    def moved(self, attempt: InFlight) -> None:
        """Called when an attempt changes its state."""
        ...

    def ended(self, attempt: InFlight, rollout: Rollout) -> None:
        """Called when an attempt is over, with its record."""
        ...


class RunEnder(Protocol):
    """Ends a run early on request."""

    def interrupt(self) -> None:
        """Start no new attempt, and let those in flight finish, as after one Ctrl-C."""
        ...

    def cancel(self) -> None:
        """Cancel the attempts in flight, too, as after a second Ctrl-C."""
        ...


class LiveRun:
    """The live state of a run, and the actions on it. Without watchers, a change of state costs one dictionary
    look-up.
    """

    def __init__(self, stop: StopSignal, ender: RunEnder | None = None) -> None:
        self.attempts: dict[str, InFlight] = {}
        """Rollout id → its attempt in flight, oldest first."""
        self.watchers: list[Watcher] = []
        self.begun = anyio.Event()
        self.facts: RunFacts | None = None
        """The run's facts; None before the run plays."""
        self.parts: RunParts | None = None
        """The run's parts; None before the run plays."""
        self.began_at = time.time()
        self.ending: RunEnding | None = None
        """How the run ended; None before its end."""
        self._stop, self._ender = stop, ender
        self._pool: Pool | None = None
        self._is_cancelled = False

    @property
    def state(self) -> RunState:
        """The run's state, which says whether it still starts attempts."""
        if self._is_cancelled:
            return "stopping"
        if self._stop.is_set:
            return "finishing"
        return "paused" if self._pool is not None and self._pool.is_held else "running"

    @property
    def concurrency(self) -> int | None:
        """The most attempts in flight at a time; None if the run has no pool."""
        return None if self._pool is None else self._pool.concurrency

    def begin(self, facts: RunFacts, pool: Pool | None) -> None:
        """Note that the run starts to play."""
        self.facts, self._pool = facts, pool
        self.began_at = time.time()
        self.begun.set()

    def end(self, ending: RunEnding) -> None:
        """Note how the run ended; later calls change nothing."""
        self.ending = self.ending or ending

    def moved(self, attempt: InFlight) -> None:
        """Note the new state of an attempt, and tell the watchers."""
        rollout_id = attempt.sample.rollout_id
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
        """Note that an attempt is over, and tell the watchers; a second call for it does nothing."""
        attempt = self.attempts.pop(rollout.rollout_id, None)
        if attempt is None:
            return
        for watcher in tuple(self.watchers):
            try:
                watcher.ended(attempt, rollout)
            except Exception:
                self._lose(watcher)

    def forget(self, attempt: InFlight) -> None:
        """Remove an attempt that was never started."""
        if self.attempts.get(attempt.sample.rollout_id) is attempt:
            del self.attempts[attempt.sample.rollout_id]

    def _lose(self, watcher: Watcher) -> None:
        """Remove a watcher that raised an error, and let the run go on."""
        logger.exception("a watcher of the run broke, and hears no more of it")
        self.watchers.remove(watcher)

    def interrupt(self) -> None:
        """Start no new attempt; those in flight finish."""
        if self._ender is None:
            self._stop.set("someone who watched the run ended it")
        else:
            self._ender.interrupt()

    def cancel(self) -> bool:
        """Cancel the attempts in flight, too; False if the run has no `RunEnder`."""
        if self._ender is None:
            return False
        self._is_cancelled = True
        self._ender.cancel()
        return True

    def resize(self, concurrency: int) -> bool:
        """Set the most attempts in flight; False if the run has no pool."""
        if self._pool is None:
            return False
        self._pool.resize(concurrency)
        return True

    def hold(self, is_held: bool) -> bool:
        """Pause or resume starting attempts; False if the run has no pool."""
        if self._pool is None:
            return False
        self._pool.hold(is_held)
        return True

    @property
    def undecided(self) -> Sequence[str]:
        """Rollout ids of samples that ended without a result and are not retried automatically, oldest first."""
        return () if self._pool is None else self._pool.undecided

    def retry(self, rollout_id: str) -> Retrying:
        """Play a sample again that ended without a result."""
        return "on_demand" if self._pool is None else self._pool.retry(rollout_id)

    @property
    def workers(self) -> int | None:
        """Number of worker processes wanted; None if this process plays."""
        return self._pool.workers if isinstance(self._pool, ResizablePool) else None

    def resize_workers(self, workers: int) -> bool:
        """Set the number of worker processes; False where this process plays."""
        if not isinstance(self._pool, ResizablePool):
            return False
        self._pool.resize_workers(workers)
        return True
