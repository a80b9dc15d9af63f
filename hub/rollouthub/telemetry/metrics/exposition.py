"""Exposes a run's figures in the Prometheus format."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from rollouthub.rollout import Outcome
from rollouthub.statistics.means import mean_of
from rollouthub.telemetry.metrics.catalogue import METRICS
from rollouthub.telemetry.metrics.counter_histogram import Histogram
from rollouthub.telemetry.metrics.process_figures import Backend, PoolLoad, ProcessSnapshot, SandboxLoad, StoreLoad
from rollouthub.telemetry.metrics.rollout_tally import EnvironmentTally, RolloutTally

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_KNOWN = {metric.name: metric for metric in METRICS}
_FAMILIES: dict[str, Callable[..., Metric]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


@dataclass
class RunFigures:
    """All figures of a run at one moment, to be exposed."""

    tally: RolloutTally = field(default_factory=RolloutTally)
    processes: Sequence[ProcessSnapshot] = ()
    """The process that writes the records, and its workers."""
    run: str = ""
    agent: str = ""
    model: str = ""
    planned: int | None = None
    done_before: int = 0
    """Rollouts that were final when the run was opened."""
    bad_rows: int = 0
    pool: PoolLoad | None = None
    store: StoreLoad | None = None
    trainer: Mapping[str, float] = field(default_factory=dict[str, float])
    """The latest figures of the trainer that learns from the run, by name."""


def expose(figures: RunFigures, accept: str = "") -> tuple[bytes, str]:
    """The figures in a scraper's format, and the content type; `accept` is the scraper's Accept header."""
    registry = CollectorRegistry()
    registry.register(_Fixed(families(figures)))
    ProcessCollector(registry=registry)
    encode, kind = choose_encoder(accept)
    return encode(registry), kind


class _Fixed(Collector):
    def __init__(self, found: Sequence[Metric]) -> None:
        self._found = found

    def collect(self) -> Sequence[Metric]:
        return self._found


def families(figures: RunFigures) -> list[Metric]:
    """Every metric that has a value."""
    book = _Book()
    _expose_run(book, figures)
    for environment, tally in figures.tally.environments.items():
        _expose_environment(book, environment, tally)
    _expose_pool(book, figures)
    _expose_models(book, figures.processes)
    _expose_sandboxes(book, figures.processes)
    _expose_servers(book, figures.processes)
    if figures.store is not None:
        _expose_store(book, figures.store)
    for process in figures.processes:
        _expose_process(book, process)
    _expose_machines(book, figures.processes)
    return list(book.families.values())


class _Book:
    """The metric families created so far."""

    def __init__(self) -> None:
        self.families: dict[str, Metric] = {}

    def put(self, name: str, value: float | Histogram | None, *labels: str) -> None:
        """Add a value; None is left out, because unknown is not 0."""
        if value is None:
            return
        family = self.families.get(name)
        if family is None:
            known = _KNOWN[name]
            family = _FAMILIES[known.kind](name, known.note, labels=known.labels)
            self.families[name] = family
        if isinstance(value, Histogram):
            assert isinstance(family, HistogramMetricFamily)
            family.add_metric(labels, list(_buckets(value)), value.total)
        else:
            assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)
            family.add_metric(labels, value)


def _buckets(histogram: Histogram) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip((*map(repr, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        total += count
        yield bound, total


def _expose_run(book: _Book, figures: RunFigures) -> None:
    book.put("rollouthub_run_info", 1, figures.run, figures.agent, figures.model)
    book.put("rollouthub_run_planned", figures.planned)
    decided = sum(
        count
        for tally in figures.tally.environments.values()
        for outcome, count in tally.outcomes.items()
        if Outcome(outcome).kind in ("scored", "agent_failure")
    )
    book.put("rollouthub_run_done", figures.done_before + decided)
    book.put("rollouthub_run_bad_rows", figures.bad_rows)
    for name, value in figures.trainer.items():
        book.put("rollouthub_trainer", value, name)


def _expose_environment(book: _Book, environment: str, tally: EnvironmentTally) -> None:
    for outcome in Outcome:  # all of them, so that a rate is there from the first on
        book.put("rollouthub_rollouts_total", tally.outcomes.get(outcome, 0), environment, outcome.kind, outcome.value)
    for kind, count in tally.faults.items():
        boundary, _, phase = kind.partition(" ")
        book.put("rollouthub_faults_total", count, environment, boundary, phase)
    for stage, histogram in tally.stages.items():
        book.put("rollouthub_stage_seconds", histogram, environment, stage)
    book.put("rollouthub_model_call_seconds", tally.model_seconds, environment)
    book.put("rollouthub_tool_call_seconds", tally.tool_seconds, environment)
    book.put("rollouthub_retries_total", tally.retried, environment)
    book.put("rollouthub_tool_errors_total", tally.tool_errors, environment)
    book.put("rollouthub_passed_total", tally.passed, environment)
    book.put("rollouthub_failed_total", tally.failed, environment)
    book.put("rollouthub_reward_mean", mean_of(tally.reward_sum, tally.scored), environment)
    book.put("rollouthub_reward_recent_mean", tally.rewards.mean, environment)
    judged = tally.passed + tally.failed
    book.put("rollouthub_pass_rate", mean_of(tally.passed, judged), environment)
    book.put("rollouthub_pass_rate_recent", tally.passes.mean, environment)
    for role, spent in tally.spent.items():
        book.put("rollouthub_model_answers_total", spent.calls, environment, role)
        book.put("rollouthub_model_retries_total", spent.retries, environment, role)
        # What nobody knows the price of was not free.
        book.put(
            "rollouthub_cost_dollars_total", spent.dollars if spent.calls > spent.unpriced else None, environment, role
        )
        book.put("rollouthub_unpriced_answers_total", spent.unpriced, environment, role)
        for kind in ("prompt", "output", "cached", "reasoning"):
            book.put("rollouthub_tokens_total", getattr(spent, f"{kind}_tokens"), environment, role, kind)


def _expose_pool(book: _Book, figures: RunFigures) -> None:
    states: dict[str, int] = dict.fromkeys(("setup", "model", "tool", "verify", "close"), 0)
    for process in figures.processes:
        for state, count in process.states.items():
            states[state] = states.get(state, 0) + count
    for state, count in states.items():
        book.put("rollouthub_episodes_in_flight", count, state)
    playing = sum(states.values())
    pool = figures.pool or PoolLoad(playing)
    book.put("rollouthub_pool_in_flight", pool.in_flight)
    book.put("rollouthub_pool_concurrency", pool.concurrency)
    book.put("rollouthub_pool_workers", pool.workers)
    book.put("rollouthub_pool_workers_alive", pool.workers_alive)
    if figures.planned is not None:
        begun = figures.tally.records - figures.tally.retried + pool.in_flight
        if figures.store is not None:
            begun += figures.store.waiting
        book.put("rollouthub_queue_length", max(0, figures.planned - figures.done_before - begun))


def _expose_models(book: _Book, processes: Sequence[ProcessSnapshot]) -> None:
    """Models and their servers; the figures of all processes are summed, because each has its own connections."""
    for model, loads in _grouped((load.model, load) for process in processes for load in process.models).items():
        book.put("rollouthub_model_waiting", sum(load.waiting for load in loads), model)
        book.put("rollouthub_model_in_flight", sum(load.in_flight for load in loads), model)
        book.put("rollouthub_model_limit", sum(load.limit for load in loads), model)
    places = _grouped(
        ((backend.model, backend.place), backend) for process in processes for backend in process.backends
    )
    for labels, backends in places.items():
        _expose_backend(book, labels, backends)


def _expose_backend(book: _Book, labels: tuple[str, str], backends: Sequence[Backend]) -> None:
    latencies = [backend.latency_seconds for backend in backends if backend.latency_seconds is not None]
    limits = [backend.limit for backend in backends if backend.limit is not None]
    book.put("rollouthub_backend_up", int(all(backend.is_up for backend in backends)), *labels)
    book.put("rollouthub_backend_in_flight", sum(backend.in_flight for backend in backends), *labels)
    book.put("rollouthub_backend_limit", sum(limits) if limits else None, *labels)
    book.put("rollouthub_backend_calls_total", sum(backend.calls for backend in backends), *labels)
    book.put("rollouthub_backend_errors_total", sum(backend.errors for backend in backends), *labels)
    book.put("rollouthub_backend_latency_seconds", sum(latencies) / len(latencies) if latencies else None, *labels)


def _expose_sandboxes(book: _Book, processes: Sequence[ProcessSnapshot]) -> None:
    places = _grouped(((load.environment, load.provider), load) for each in processes for load in each.sandboxes)
    for labels, loads in places.items():
        book.put("rollouthub_sandboxes_live", sum(load.live for load in loads), *labels)
        book.put("rollouthub_sandboxes_opened_total", sum(load.opened for load in loads), *labels)
        book.put("rollouthub_sandboxes_failed_total", sum(load.failed for load in loads), *labels)
        book.put("rollouthub_sandboxes_died_total", sum(load.died for load in loads), *labels)
        for name in ("warm", "starting", "ending"):
            book.put(f"rollouthub_sandboxes_{name}", _sum(loads, name), *labels)


def _expose_servers(book: _Book, processes: Sequence[ProcessSnapshot]) -> None:
    for environment, loads in _grouped((load.environment, load) for each in processes for load in each.servers).items():
        book.put("rollouthub_environment_servers", sum(load.servers for load in loads), environment)
        book.put("rollouthub_environment_servers_up", sum(load.up for load in loads), environment)


def _sum(loads: Sequence[SandboxLoad], name: str) -> int | None:
    known = [count for load in loads if (count := getattr(load, name)) is not None]
    return sum(known) if known else None


def _expose_store(book: _Book, store: StoreLoad) -> None:
    book.put("rollouthub_store_waiting", store.waiting)
    book.put("rollouthub_store_commits_total", store.commits)
    book.put("rollouthub_store_records_total", store.records)
    book.put("rollouthub_store_commit_seconds_total", store.seconds)
    book.put("rollouthub_store_longest_commit_seconds", store.longest_seconds)
    book.put("rollouthub_disk_free_bytes", store.free_bytes)
    book.put("rollouthub_disk_bytes", store.disk_bytes)


def _expose_process(book: _Book, process: ProcessSnapshot) -> None:
    usage, name = process.usage, process.process
    book.put("rollouthub_event_loop_lag_seconds", process.lag, name)
    book.put("rollouthub_process_cpu_seconds_total", usage.cpu_seconds, name)
    book.put("rollouthub_process_children_cpu_seconds_total", usage.children_cpu_seconds, name)
    book.put("rollouthub_process_resident_bytes", usage.resident_bytes, name)
    book.put("rollouthub_process_read_bytes_total", usage.read_bytes, name)
    book.put("rollouthub_process_written_bytes_total", usage.written_bytes, name)
    book.put("rollouthub_spans_dropped_total", process.spans_dropped, name)


def _expose_machines(book: _Book, processes: Sequence[ProcessSnapshot]) -> None:
    """Network and GPUs, once for each machine, because all its processes see the same ones."""
    for machine, seen in _grouped((process.machine, process) for process in processes).items():
        book.put("rollouthub_network_received_bytes_total", seen[0].received_bytes, machine)
        book.put("rollouthub_network_sent_bytes_total", seen[0].sent_bytes, machine)
        for gpu in next((process.gpus for process in seen if process.gpus), ()):
            labels = machine, str(gpu.index)
            book.put("rollouthub_gpu_utilisation", gpu.used_share, *labels)
            book.put("rollouthub_gpu_memory_used_bytes", gpu.memory_used_bytes, *labels)
            book.put("rollouthub_gpu_memory_bytes", gpu.memory_bytes, *labels)


def _grouped(pairs: Iterable[tuple[Key, Value]]) -> Mapping[Key, list[Value]]:
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
