"""`hub bench ray`: CPU of a run's driver and workers on Ray, beside the same run in one process."""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rollouthub.bench.cell import mock_server, run_cell
from rollouthub.errors import ConfigError, HubError
from rollouthub.plugins.extras import pip_install

REPETITIONS = 2
"""Tries of each pool, alternating; the best counts, because other programs disturb the rest."""


@dataclass(frozen=True)
class RayReport:
    """All measurements. CPU is in milliseconds per rollout, without the mock model server's."""

    rollouts: int
    concurrency: int
    workers: int
    cores: int
    local_cpu_ms_per_rollout: float
    driver_cpu_ms_per_rollout: float
    worker_cpu_ms_per_rollout: float
    worker_cpu_ratio: float
    """CPU per rollout of the workers divided by that of one process."""
    local_per_second: float
    ray_per_second: float
    wall_efficiency: float
    """The cluster's rate divided by `workers` times the rate of one process."""
    local_growth_mb: float
    driver_growth_mb: float
    """Growth of the driver's resident memory in megabytes, from 1,000 committed rollouts (half of all, if fewer than
    2,000) to the end.
    """
    worker_growth_mb: float
    start_seconds: float
    """Seconds from the run's start until it is ready to play, on a cluster that is up."""

    @property
    def has_room(self) -> bool:
        """Whether driver, workers and model server had a core each; without that, rates say little."""
        return self.cores >= self.workers + 2

    def as_json(self) -> dict[str, Any]:
        """The report as `hub bench ray --json` prints it."""
        return {**asdict(self), "has_room": self.has_room}


def measure_ray(rollouts: int, concurrency: int, workers: int, say: Callable[[str], None]) -> RayReport:
    """Measure the same run on both pools.

    Raises:
        HubError: Ray is not installed, or a measuring process failed.
    """
    if workers < 1:
        raise ConfigError("`hub bench ray` measures workers; --workers 1 is the least")
    local: list[dict[str, float]] = []
    ray: list[dict[str, float]] = []
    with mock_server() as url:
        for repetition in range(1, REPETITIONS + 1):
            say(f"{rollouts:,} rollouts in one process, {repetition} of {REPETITIONS} …")
            local.append(_cell("local", url, concurrency, rollouts, workers))
            say(f"{rollouts:,} rollouts on Ray with {workers} workers, {repetition} of {REPETITIONS} …")
            ray.append(_cell("ray", url, concurrency, rollouts, workers))
    one, many = min(local, key=lambda each: each["cpu_ms"]), min(ray, key=lambda each: each["worker_cpu_ms"])
    return RayReport(
        rollouts=rollouts,
        concurrency=concurrency,
        workers=workers,
        cores=os.cpu_count() or 1,
        local_cpu_ms_per_rollout=one["cpu_ms"],
        driver_cpu_ms_per_rollout=many["driver_cpu_ms"],
        worker_cpu_ms_per_rollout=many["worker_cpu_ms"],
        worker_cpu_ratio=round(many["worker_cpu_ms"] / one["cpu_ms"], 3),
        local_per_second=one["per_second"],
        ray_per_second=many["per_second"],
        wall_efficiency=round(many["per_second"] / (workers * one["per_second"]), 3),
        local_growth_mb=one["growth_mb"],
        driver_growth_mb=many["driver_growth_mb"],
        worker_growth_mb=many["worker_growth_mb"],
        start_seconds=many["start_seconds"],
    )


def _cell(pool: str, url: str, concurrency: int, rollouts: int, workers: int) -> dict[str, float]:
    try:
        return run_cell("ray_cell", pool, url, concurrency, rollouts, workers, what=f"the {pool} cell")
    except HubError as error:
        if "the Ray pool needs Ray" in str(error):
            raise ConfigError(f"`hub bench ray` needs Ray: {pip_install('ray')}") from error
        raise
