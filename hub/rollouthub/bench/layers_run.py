"""A whole run of `hub bench layers`: its rate, and the CPU of driver, workers and servers separately.

Measuring begins when a fifth of the records are committed and every worker is up, so that the start of the run and of
its processes does not count.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from rollouthub.bench.layer import LayerRun, Setup
from rollouthub.bench.overhead_cell import Count, run_plan
from rollouthub.cluster.open_cluster import open_cluster
from rollouthub.cluster.ray_pool import RayPool
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import Rollout
from rollouthub.statistics.quantiles import quantile
from rollouthub.telemetry.cpu import children_cpu_seconds, process_cpu_seconds

WARM_UP = 32
"""Most rollouts of the warm-up run, which is not measured."""
_BEGINNING = 0.2
"""Share of the records before which nothing is measured."""


@dataclass(frozen=True)
class _Mark:
    """Counters at one moment; wall and CPU times in seconds."""

    records: int
    wall: float
    driver: float
    children: float
    model: float
    workers: float


class LayerWatch(Count):
    """Records counters when measuring begins and after every commit."""

    def __init__(self, records: int, model_pid: int | None, live: LiveRun, workers: int) -> None:
        super().__init__()
        self.seconds: list[float] = []
        """Wall seconds of each rollout."""
        self._beginning, self._model_pid = _BEGINNING * records, model_pid
        self._live, self._workers = live, workers
        self._marks: list[_Mark] = []
        """At the start, at the beginning of measuring (once it has begun), and at the last commit."""

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Record the counters at the run's start."""
        super().started(run_id, planned, done, bad_rows)
        self._marks = [self._look()] * 2

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Record the counters after a commit."""
        super().committed(rollouts)
        self.seconds += [rollout.timings.total for rollout in rollouts]
        is_beginning = len(self._marks) == 2 and self.committed_count >= self._beginning and self._are_workers_up()
        self._marks[-1:] = [self._look()] * (2 if is_beginning else 1)

    def _are_workers_up(self) -> bool:
        pool = self._pool
        return pool is None or pool.workers_alive >= self._workers

    @property
    def _pool(self) -> RayPool | None:
        pool = self._live.parts.pool if self._live.parts is not None else None
        return pool if isinstance(pool, RayPool) else None

    def _look(self) -> _Mark:
        pool, pid = self._pool, self._model_pid
        workers = 0.0
        if pool is not None:
            workers = sum(status.cpu_seconds for status in (*pool.status(), *pool.gone))
        return _Mark(
            self.committed_count,
            time.perf_counter(),
            time.process_time(),
            children_cpu_seconds(),
            0.0 if pid is None else process_cpu_seconds(pid),
            workers,
        )

    def played(self) -> LayerRun:
        """The measurements of the run, after it has ended."""
        start, *beginning, last = self._marks
        first = next((mark for mark in beginning if last.records - mark.records >= last.records / 4), start)
        records, ordered = last.records - first.records, sorted(self.seconds)

        def each(of: Callable[[_Mark], float]) -> float:
            return round(max(of(last) - of(first), 0.0) / records * 1000, 4)

        return LayerRun(
            rollouts=last.records,
            unscored=last.records - self.scored,
            per_second=round(records / (last.wall - first.wall), 2),
            driver_cpu_ms=each(lambda mark: mark.driver),
            workers_cpu_ms=each(lambda mark: mark.workers),
            servers_cpu_ms=each(lambda mark: mark.children - mark.workers),
            model_cpu_ms=each(lambda mark: mark.model),
            p50_ms=round(quantile(ordered, 0.5) * 1000, 2),
            p95_ms=round(quantile(ordered, 0.95) * 1000, 2),
        )


async def play(setup: Setup, credentials: Credentials) -> LayerRun:
    """Play a short warm-up run, then the measured run."""
    request = setup.request
    workers = request.workers if isinstance(request.workers, int) else 0
    async with AsyncExitStack() as stack:
        if request.pool == "ray":
            await stack.enter_async_context(open_cluster(request.ray, cpus=max(workers, 2)))
        first = {"limit": min(request.limit or WARM_UP, request.concurrency, WARM_UP), "repeats": 1}
        await run_plan(make_plan(request.model_copy(update=first)), credentials, Count())
        live = LiveRun(StopSignal())
        watch = LayerWatch((request.limit or 1) * request.repeats, setup.model_pid, live, workers)
        await run_plan(make_plan(request), credentials, watch, live=live)
    return watch.played()
