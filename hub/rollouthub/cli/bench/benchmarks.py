"""The hub's own benchmarks by name: how each is measured and shown."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import typer

from rollouthub.cli.console import results
from rollouthub.event_loop import run_async
from rollouthub.plugins.extras import pip_install


@dataclass(frozen=True)
class BenchmarkOptions:
    """What the command line asks of a benchmark."""

    say: Callable[[str], None]
    as_json: bool
    rollouts: int | None
    levels: Sequence[int]
    """Of concurrency; none are the benchmark's own."""
    lanes: Sequence[str]
    with_memory: bool
    workers: int
    latency: float = 5.0
    """Seconds of a model call."""
    is_quick: bool = False
    request: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of a run: the environment and the model to measure with, where a benchmark takes others than its own."""

    def show(self, figures: Any, print_tables: Callable[[], None]) -> None:
        """As JSON, or as tables."""
        if self.as_json:
            typer.echo(json.dumps(figures))
        else:
            print_tables()


def _overhead(asked: BenchmarkOptions) -> None:
    from rollouthub.bench.overhead import measure_overhead
    from rollouthub.cli.bench.bench_tables import print_overhead

    report = measure_overhead(
        asked.levels or [32, 256, 2000],
        asked.rollouts or 3000,
        lanes=asked.lanes or _lanes(asked.say),
        with_memory=asked.with_memory,
        say=asked.say,
    )
    asked.show(report.as_json(), lambda: print_overhead(results(), report))


def _serving(asked: BenchmarkOptions) -> None:
    from rollouthub.bench.env_server import as_json, measure_serving
    from rollouthub.cli.bench.bench_tables import print_serving

    rows = run_async(measure_serving, asked.rollouts or 3000, asked.levels or [1, 100], asked.say)
    asked.show(as_json(rows), lambda: print_serving(results(), rows))


def _gateway(asked: BenchmarkOptions) -> None:
    from rollouthub.bench.gateway import measure_gateway
    from rollouthub.cli.bench.bench_tables import print_gateway

    report = run_async(measure_gateway, asked.rollouts or 3000, asked.levels or [1, 32, 500], asked.say)
    asked.show(report.as_json(), lambda: print_gateway(results(), report))


def _latency(asked: BenchmarkOptions) -> None:
    from rollouthub.bench.latency import measure_latency
    from rollouthub.cli.bench.bench_tables import print_latency

    report = measure_latency((asked.levels or [2000])[0], asked.latency, asked.rollouts or 1, asked.say)
    asked.show(report.as_json(), lambda: print_latency(results(), report))


def _ray(asked: BenchmarkOptions) -> None:
    from rollouthub.bench.ray import measure_ray
    from rollouthub.cli.bench.bench_tables import print_ray

    report = measure_ray(asked.rollouts or 20_000, (asked.levels or [256])[0], asked.workers, asked.say)
    asked.show(report.as_json(), lambda: print_ray(results(), report))


def _schedule(asked: BenchmarkOptions) -> None:
    from rollouthub.bench.schedule import SIZES, as_json, measure_schedule
    from rollouthub.cli.bench.bench_tables import print_schedule

    rows = measure_schedule([asked.rollouts] if asked.rollouts else SIZES, asked.say)
    asked.show(as_json(rows), lambda: print_schedule(results(), rows))


def _layers(asked: BenchmarkOptions) -> None:
    from rollouthub.bench.layers import measure_layers
    from rollouthub.cli.bench.bench_tables import print_layers
    from rollouthub.engine.run_request import build_request

    settings = {"environments": ["arithmetic"], "concurrency": (asked.levels or [32])[0], **asked.request}
    report = measure_layers(
        build_request(settings, "hub bench layers"),
        asked.say,
        rollouts=asked.rollouts,
        workers=asked.workers,
        is_quick=asked.is_quick,
    )
    asked.show(report.as_json(), lambda: print_layers(results(), report))


def _export(asked: BenchmarkOptions) -> None:
    from rollouthub.bench.export import QUICK_ROLLOUTS, ROLLOUTS, measure_export
    from rollouthub.cli.bench.bench_tables import print_export

    report = measure_export(asked.rollouts or (QUICK_ROLLOUTS if asked.is_quick else ROLLOUTS), asked.say)
    asked.show(report.as_json(), lambda: print_export(results(), report))


def _lanes(say: Callable[[str], None]) -> list[str]:
    """Every lane that can be measured here."""
    from rollouthub.bench.overhead import LANES
    from rollouthub.models.litellm.package import find_litellm

    if find_litellm() is not None:
        return list(LANES)
    say(f"without litellm's lane: {pip_install('litellm')}")
    return [lane for lane in LANES if "litellm" not in lane]


BENCHES: Mapping[str, Callable[[BenchmarkOptions], None]] = {
    "overhead": _overhead,
    "serving": _serving,
    "gateway": _gateway,
    "latency": _latency,
    "layers": _layers,
    "ray": _ray,
    "schedule": _schedule,
    "export": _export,
}
