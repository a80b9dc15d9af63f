"""The benchmark of a slow model plays a whole run against a real one, and says how near it came."""

import pytest

from rollouthub.bench.latency import FEWEST_ROUNDS, measure_latency


@pytest.mark.soak
def test_a_slow_model_is_kept_busy() -> None:
    said: list[str] = []
    report = measure_latency(50, 0.5, 1, said.append)
    assert report.rollouts == 50 * FEWEST_ROUNDS
    assert report.possible_rate == 50
    assert 0.5 < report.share <= 1.0
    assert 0 <= report.lag_p50_ms <= report.lag_p99_ms <= report.lag_max_ms
    assert report.own_lag_max_ms <= report.lag_max_ms
    assert report.as_json()["within_bars"].keys() == {"rate", "lag"}
    assert len(said) == 1
