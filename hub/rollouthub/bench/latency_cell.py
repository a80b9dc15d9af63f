"""The run of `hub bench latency`, in a process of its own: prints its figures as JSON."""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from rollouthub.bench.overhead_cell import Count, plan_for, resident_bytes
from rollouthub.engine.pool import StopSignal
from rollouthub.engine.run import collect
from rollouthub.event_loop import run_async
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import Rollout
from rollouthub.statistics.quantiles import quantile
from rollouthub.telemetry.cpu import cpu_seconds

BEAT_SECONDS = 0.005
"""How often the loop is asked to be on time."""


class LatencyWatch(Count):
    """Counts commits, and keeps what is needed to say how late the loop was and how large the process."""

    def __init__(self) -> None:
        super().__init__()
        self.lags: list[tuple[float, float]] = []
        """How late the loop was, and how much of that this thread was at work."""
        self.before_bytes = self.most_bytes = 0
        self.ended = 0.0

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Everything is up: from here on it counts."""
        super().started(run_id, planned, done, bad_rows)
        self.before_bytes = self.most_bytes = resident_bytes()
        self.lags.clear()

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Note when the last record was durable."""
        super().committed(rollouts)
        self.ended = time.perf_counter()
        self.most_bytes = max(self.most_bytes, resident_bytes())

    async def listen(self) -> None:
        """Ask the loop for a beat, for ever, and note how late each comes."""
        while True:
            due, worked = time.perf_counter() + BEAT_SECONDS, time.thread_time()
            await anyio.sleep(BEAT_SECONDS)
            late = max(time.perf_counter() - due, 0.0)
            self.lags.append((late, min(late, time.thread_time() - worked)))


async def play(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """One durable run; its figures."""
    watch = LatencyWatch()
    with tempfile.TemporaryDirectory() as folder:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.listen)
            await collect(
                plan_for(url, concurrency, rollouts),
                Path(folder) / "run",
                given="",
                resume=False,
                credentials=Credentials({}),
                observer=watch,
                stop=StopSignal(),
            )
            tasks.cancel_scope.cancel()
    if watch.scored != rollouts:
        raise SystemExit(f"{watch.scored} of {rollouts} rollouts were scored")
    wall, cpu = watch.began
    return {
        "seconds": round(watch.ended - wall, 3),
        **_lateness("lag", [late for late, _ in watch.lags]),
        **_lateness("own_lag", [own for _, own in watch.lags]),
        "cpu_ms_per_rollout": round((cpu_seconds() - cpu) / rollouts * 1000, 4),
        "memory_mb": round(watch.most_bytes / 1e6, 1),
        "memory_kb_per_episode": round((watch.most_bytes - watch.before_bytes) / concurrency / 1e3, 1),
    }


def _lateness(name: str, lags: Sequence[float]) -> dict[str, float]:
    """How late an event at any moment would have been noticed: a beat that is late hides those that were due."""
    whole: list[float] = []
    for lag in lags:
        whole.append(lag)
        while (lag := lag - BEAT_SECONDS) > 0:
            whole.append(lag)
    whole.sort()
    picked = {"p50": quantile(whole, 0.5), "p99": quantile(whole, 0.99), "max": whole[-1]}
    return {f"{name}_{what}_ms": round(seconds * 1000, 2) for what, seconds in picked.items()}


def main() -> None:
    """`python -m rollouthub.bench.latency_cell URL CONCURRENCY ROLLOUTS`."""
    url, concurrency, rollouts = sys.argv[1:]
    sys.stdout.write(json.dumps(run_async(play, url, int(concurrency), int(rollouts))) + "\n")


if __name__ == "__main__":
    main()
