"""Monitors a run from inside its process: counts committed records, and reads all other figures on request."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from rollouthub.engine.run import Observer
from rollouthub.engine.run_control import LiveRun
from rollouthub.rollout import Rollout
from rollouthub.telemetry.metrics.exposition import RunFigures
from rollouthub.telemetry.metrics.gpu import Gpus
from rollouthub.telemetry.metrics.loop_lag import LoopLag
from rollouthub.telemetry.metrics.process_figures import HUB, PoolLoad, ProcessSnapshot, StoreLoad
from rollouthub.telemetry.metrics.process_snapshot import take_snapshot
from rollouthub.telemetry.metrics.rollout_tally import RolloutTally

logger = logging.getLogger(__name__)


@runtime_checkable
class WorkerPool(Protocol):
    """A pool that plays episodes in other processes."""

    @property
    def workers(self) -> int:
        """The wanted number of workers."""
        ...

    @property
    def workers_alive(self) -> int: ...


@runtime_checkable
class ReportingPool(Protocol):
    """A pool whose workers send snapshots of themselves."""

    @property
    def snapshots(self) -> Sequence[ProcessSnapshot]:
        """The latest snapshot of each running worker, without the states of episodes that this process itself
        tracks.
        """
        ...


class RunMonitor:
    """A run observer that counts the records it is told of, and passes everything on to another observer."""

    def __init__(self, live: LiveRun, observer: Observer | None = None) -> None:
        self.tally = RolloutTally()
        self.lag = LoopLag()
        self.url: str | None = None
        """The URL of the exposed metrics; None while they are not exposed."""
        self.trainer: Mapping[str, float] = {}
        """The latest figures of the trainer that learns from the run."""
        self._live, self._observer = live, observer
        self._gpus = Gpus()
        self._planned: int | None = None
        self._done = self._bad_rows = 0

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Called when the run is about to play."""
        self._planned, self._done, self._bad_rows = planned, done, bad_rows
        logger.info("metrics at %s", self.url)
        if self._observer is not None:
            self._observer.started(run_id, planned, done, bad_rows)

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Called when records are durable."""
        self.tally.count(rollouts)
        if self._observer is not None:
            self._observer.committed(rollouts)

    def stopped(self, reason: str) -> None:
        """Called when the run ends before everything planned was played."""
        if self._observer is not None:
            self._observer.stopped(reason)

    def look(self) -> RunFigures:
        """The run's present figures, as a copy that does not change, so that another thread can format it."""
        live = self._live
        facts, parts = live.facts, live.parts
        own = take_snapshot(
            HUB,
            attempts=live.attempts.values(),
            models=None if parts is None else parts.models,
            hosts=() if parts is None else parts.hosts,
            lag=self.lag.histogram,
            spans_dropped=0 if parts is None or parts.tracer is None else parts.tracer.dropped,
            gpus=self._gpus.look(),
        )
        pool = None if parts is None else parts.pool
        staff = pool if isinstance(pool, WorkerPool) else None
        others = tuple(pool.snapshots) if isinstance(pool, ReportingPool) else ()
        figures = RunFigures(
            tally=msgspec.convert(msgspec.to_builtins(self.tally), RolloutTally),
            processes=(own, *others),
            planned=self._planned,
            done_before=self._done,
            bad_rows=self._bad_rows,
            trainer=dict(self.trainer),
            pool=PoolLoad(
                in_flight=len(live.attempts),
                concurrency=live.concurrency,
                workers=None if staff is None else staff.workers,
                workers_alive=None if staff is None else staff.workers_alive,
            ),
        )
        if facts is not None:
            figures.run, figures.agent, figures.model = facts.run_id, facts.agent, facts.model or ""
            if parts is not None:
                figures.store = _store(parts.writer, facts.directory)
        return figures


class Writer(Protocol):
    """The figures of the run's record writer."""

    @property
    def waiting(self) -> int: ...
    @property
    def commits(self) -> "CommitCounts": ...


class CommitCounts(Protocol):
    """Counts of a writer's commits."""

    count: int
    records: int
    seconds: float
    longest_seconds: float


def _store(writer: Writer, directory: Path) -> StoreLoad:
    commits = writer.commits
    try:
        disk = os.statvfs(directory)
    except OSError:
        free = size = None
    else:
        free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    return StoreLoad(
        waiting=writer.waiting,
        commits=commits.count,
        records=commits.records,
        seconds=commits.seconds,
        longest_seconds=commits.longest_seconds,
        free_bytes=free,
        disk_bytes=size,
    )
