"""The simulated schedule plays everything there is, whatever is lost on the way."""

from rollouthub.bench.schedule import as_json, measure_schedule


def test_every_sample_of_a_simulated_run_is_accounted_for() -> None:
    said: list[str] = []
    (row,) = measure_schedule([5000], said.append)
    assert row.items == 5000
    assert row.microseconds_per_item > 0
    assert row.retried > 0
    assert row.set_aside == 0
    assert 0 < row.efficiency <= 1
    assert said == ["5,000 samples on 64 workers …"]
    told = as_json([row])
    assert (told["workers"], told["rows"][0]["items"]) == (64, 5000)


def test_a_sample_that_takes_its_worker_every_time_is_set_aside_and_the_rest_is_played() -> None:
    (row,) = measure_schedule([50_000], lambda text: None)
    assert row.set_aside == 1
    assert row.lost_workers >= 3
