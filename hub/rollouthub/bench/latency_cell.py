"""The run of `hub bench latency`, in its own process; prints its figures as JSON."""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import anyio

from rollouthub.bench.overhead_cell import Count, plan_for, resident_bytes
from rollouthub.engine.pool import StopSignal
from rollouthub.engine.run import play_run
from rollouthub.event_loop import run_async
from rollouthub.models.credentials import Credentials
from rollouthub.rollout import Rollout
from rollouthub.statistics.quantiles import quantile
from rollouthub.telemetry.cpu import cpu_seconds

BEAT_SECONDS = 0.005
"""Seconds between two timers with which the event loop's delay is measured."""


class LatencyWatch(Count):
    """Counts commits, and measures the event loop's delays and the process's memory."""

    def __init__(self) -> None:
        super().__init__()
        self.lags: list[tuple[float, float]] = []
        """For each timer, the delay in seconds and the part of it in which this thread used the CPU."""
        self.before_bytes = self.most_bytes = 0
        self.ended = 0.0

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """Begin to measure, when everything is ready to play."""
        super().started(run_id, planned, done, bad_rows)
        self.before_bytes = self.most_bytes = resident_bytes()
        self.lags.clear()

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Note the time and the memory at each commit."""
        super().committed(rollouts)
        self.ended = time.perf_counter()
        self.most_bytes = max(self.most_bytes, resident_bytes())

    async def listen(self) -> None:
        """Set a timer again and again, and record how late each one fires."""
        while True:
            due, worked = time.perf_counter() + BEAT_SECONDS, time.thread_time()
            await anyio.sleep(BEAT_SECONDS)
            late = max(time.perf_counter() - due, 0.0)
            self.lags.append((late, min(late, time.thread_time() - worked)))


async def play(url: str, concurrency: int, rollouts: int) -> dict[str, float]:
    """Play one durable run, and return its figures."""
    watch = LatencyWatch()
    with tempfile.TemporaryDirectory() as folder:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.listen)
            await play_run(
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
    """Percentiles of the delay an event at any moment would have met; a late timer also counts for those it missed."""
    whole: list[float] = []
    for lag in lags:
        whole.append(lag)
        while (lag := lag - BEAT_SECONDS) > 0:
            whole.append(lag)
    whole.sort()
    picked = {"p50": quantile(whole, 0.5), "p99": quantile(whole, 0.99), "max": whole[-1]}
    return {f"{name}_{what}_ms": round(seconds * 1000, 2) for what, seconds in picked.items()}


def main() -> None:
    """Entry point: `python -m rollouthub.bench.latency_cell URL CONCURRENCY ROLLOUTS`."""
    url, concurrency, rollouts = sys.argv[1:]
    sys.stdout.write(json.dumps(run_async(play, url, int(concurrency), int(rollouts))) + "\n")


if __name__ == "__main__":
    main()
