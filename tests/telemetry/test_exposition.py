"""Figures in Prometheus' words: nothing merged that differs, nothing made up, nothing that grows without bound."""

import re

from prometheus_client.parser import text_string_to_metric_families

from rollouthub.rollout import Outcome
from rollouthub.telemetry.metrics.catalogue import METRICS
from rollouthub.telemetry.metrics.counter_histogram import LAG_BOUNDS, empty
from rollouthub.telemetry.metrics.exposition import RunFigures, expose
from rollouthub.telemetry.metrics.process_figures import PoolLoad, ProcessSnapshot, ProcessUsage
from tests.telemetry.full import full
from tests.telemetry.records import record

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(figures: RunFigures) -> Samples:
    """Every sample of an exposition."""
    body, _ = expose(figures)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, tuple(sorted(labels.items()))))


def test_every_metric_of_the_catalogue_is_exposed_where_there_is_something_to_say() -> None:
    shown = {name for name, _ in samples(full())}
    histograms = {metric.name for metric in METRICS if metric.kind == "histogram"}
    assert {metric.name for metric in METRICS} - histograms <= shown
    assert {f"{name}_bucket" for name in histograms} <= shown
    ours = {name for name in shown if name.startswith("rollouthub_")}
    known = {metric.name for metric in METRICS}
    assert {re.sub("_(bucket|sum|count)$", "", name) if name not in known else name for name in ours} <= known


def test_kinds_of_outcome_are_never_merged() -> None:
    figures = RunFigures()
    figures.tally.count(record(outcome) for outcome in Outcome)
    found = samples(figures)
    for outcome in Outcome:
        labels = {"environment": "sums", "kind": outcome.kind, "outcome": outcome.value}
        assert value(found, "rollouthub_rollouts_total", **labels) == 1


def test_what_is_not_known_is_absent_and_not_zero() -> None:
    figures = RunFigures()
    figures.tally.count([record(Outcome.MODEL_FAILED)])
    turn = record(turns=1).turns[0].model_copy(update={"cost": None})
    figures.tally.count([record(Outcome.CANCELLED).model_copy(update={"turns": (turn,)})])
    shown = {name for name, _ in samples(figures)}
    assert "rollouthub_unpriced_answers_total" in shown
    assert "rollouthub_cost_dollars_total" not in shown
    for name in ("reward_mean", "reward_recent_mean", "pass_rate", "pass_rate_recent", "queue_length", "run_planned"):
        assert f"rollouthub_{name}" not in shown
    assert not [
        name for name in shown if name.startswith(("rollouthub_gpu", "rollouthub_backend", "rollouthub_sandboxes"))
    ]
    assert "rollouthub_pool_workers" not in shown


def test_a_mean_of_zero_is_shown_as_one() -> None:
    figures = RunFigures()
    figures.tally.count([record(reward=0.0, passed=False)])
    found = samples(figures)
    assert value(found, "rollouthub_reward_mean", environment="sums") == 0.0
    assert value(found, "rollouthub_pass_rate", environment="sums") == 0.0


def test_no_label_grows_with_the_number_of_rollouts() -> None:
    few, many = full(rollouts=3), full(rollouts=60)
    assert samples(few).keys() == samples(many).keys()
    body, _ = expose(many)
    assert b"secret" not in body
    assert len(samples(many)) < 1500


def test_processes_that_call_one_server_are_summed_and_their_loops_are_not() -> None:
    lag = empty(LAG_BOUNDS)
    lag.observe(0.02)
    figures = full(workers=3)
    found = samples(figures)
    labels = {"model": "hosted_vllm/m", "backend": "http://127.0.0.1:8000/v1"}
    assert value(found, "rollouthub_backend_in_flight", **labels) == 4 * 5
    assert value(found, "rollouthub_episodes_in_flight", state="model") == 4 * 2
    assert value(found, "rollouthub_event_loop_lag_seconds_count", process="worker-2") == 1
    assert value(found, "rollouthub_process_cpu_seconds_total", process="worker-2") == 2.0
    assert value(found, "rollouthub_gpu_utilisation", machine="here", gpu="0") == 0.5


def test_the_queue_is_what_nobody_has_begun() -> None:
    figures = RunFigures(planned=100, done_before=10, pool=PoolLoad(in_flight=4, concurrency=4))
    figures.processes = [ProcessSnapshot("hub", ProcessUsage(1.0, 0.0, 1), states={"model": 4})]
    figures.tally.count([record(Outcome.MODEL_FAILED), record(queue=0.3), record()])
    found = samples(figures)
    assert value(found, "rollouthub_queue_length") == 100 - 10 - 4 - 2
    assert value(found, "rollouthub_run_done") == 12


def test_a_scraper_gets_the_format_it_asks_for() -> None:
    body, kind = expose(full(), "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
