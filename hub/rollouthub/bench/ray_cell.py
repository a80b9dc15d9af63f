"""One measurement of `hub bench ray`, in its own process; prints its figures as JSON."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from rollouthub.bench.overhead_cell import WARM_UP, Count, run_once
from rollouthub.cluster.open_cluster import open_cluster
from rollouthub.cluster.ray_pool import RayPool
from rollouthub.engine.pool_options import RayOptions
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.event_loop import run_async
from rollouthub.rollout import Rollout
from rollouthub.telemetry.memory import resident_bytes

MARK = 1000
"""Committed rollouts from which memory growth is measured; half of them in a small run."""


class Weighed(Count):
    """A `Count` that also notes the workers' memory."""

    def __init__(self, live: LiveRun, mark: int) -> None:
        super().__init__(mark)
        self._live = live
        self.workers: dict[str, int] = {}
        """Worker → resident bytes when `mark` rollouts were committed."""

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Count records, and note the memory of all processes once."""
        is_first = self.mark_bytes is None
        super().committed(rollouts)
        pool = self._live.parts.pool if self._live.parts is not None else None
        if is_first and self.mark_bytes is not None and isinstance(pool, RayPool):
            self.workers = {status.name: status.resident_bytes for status in pool.status()}


async def local(url: str, concurrency: int, rollouts: int) -> dict[str, Any]:
    """Measure the run in one process, for comparison."""
    await run_once(url, min(concurrency, 32), WARM_UP, Count())
    count = Count(min(MARK, rollouts // 2))
    wall, cpu = time.perf_counter(), time.process_time()
    await run_once(url, concurrency, rollouts, count)
    return {
        "cpu_ms": _each(time.process_time() - cpu, rollouts),
        "per_second": round(rollouts / (time.perf_counter() - wall), 1),
        "growth_mb": _growth(count.mark_bytes, resident_bytes()),
    }


async def ray(url: str, concurrency: int, rollouts: int, workers: int) -> dict[str, Any]:
    """Measure CPU and memory of driver and workers on Ray; Ray's own processes do not count."""
    async with open_cluster(RayOptions(), cpus=max(workers, 2)):
        await run_once(url, 32, WARM_UP, Count(), pool="ray", workers=workers)
        live = LiveRun(StopSignal())
        count = Weighed(live, min(MARK, rollouts // 2))
        wall, cpu = time.perf_counter(), time.process_time()
        await run_once(url, concurrency, rollouts, count, live=live, pool="ray", workers=workers)
        began = count.began[0]
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
        pool = live.parts.pool if live.parts is not None else None
        assert isinstance(pool, RayPool)
        return {
            "driver_cpu_ms": _each(used, rollouts),
            "worker_cpu_ms": _each(sum(status.cpu_seconds for status in pool.gone), rollouts),
            "per_second": round(rollouts / seconds, 1),
            "start_seconds": round(began - wall, 2),
            "driver_growth_mb": _growth(count.mark_bytes, resident_bytes()),
            "worker_growth_mb": max(
                _growth(count.workers.get(status.name), status.resident_bytes) or 0.0 for status in pool.gone
            ),
        }


def _each(seconds: float, rollouts: int) -> float:
    return round(seconds * 1000 / rollouts, 4)


def _growth(before: int | None, after: int) -> float | None:
    return None if before is None else round((after - before) / 1e6, 2)


def main() -> None:
    """Entry point: run the measurement for pool, URL, concurrency, rollouts and workers from the command line."""
    pool, url, concurrency, rollouts, *workers = sys.argv[1:]
    if pool == "local":
        figures = run_async(local, url, int(concurrency), int(rollouts))
    else:
        figures = run_async(ray, url, int(concurrency), int(rollouts), int(workers[0]))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
