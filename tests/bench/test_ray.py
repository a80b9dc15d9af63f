"""The benchmark of the Ray pool plays the same run on both pools, and says what distributing it costs."""

import pytest

from rollouthub.bench.ray import REPETITIONS, measure_ray


@pytest.mark.soak
def test_driver_and_workers_are_measured_beside_one_process() -> None:
    said: list[str] = []
    report = measure_ray(100, 8, 1, said.append)
    told = report.as_json()
    assert told["driver_cpu_ms_per_rollout"] > 0
    assert told["local_cpu_ms_per_rollout"] > 0
    ratio = told["worker_cpu_ms_per_rollout"] / told["local_cpu_ms_per_rollout"]
    assert told["worker_cpu_ratio"] == pytest.approx(ratio, abs=0.001)
    assert told["has_room"] == (report.cores >= 3)
    assert len(said) == 2 * REPETITIONS
