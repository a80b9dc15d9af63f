"""The hub's own benchmarks by name: how each is measured and shown."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer

from rollouthub.cli.bench.bench_options import BenchOptions
from rollouthub.cli.console import results
from rollouthub.event_loop import run_async
from rollouthub.plugins.extras import pip_install


@dataclass(frozen=True)
class Benchmark:
    """The options and settings with which `hub bench` runs one benchmark."""

    options: BenchOptions
    request: Mapping[str, Any]
    """Settings of the measured run, such as environment and model, for benchmarks that let the user choose them."""
    say: Callable[[str], None]

    def show(self, figures: Any, print_tables: Callable[[], None]) -> None:
        """Print the figures as JSON if `--json` was given, else call `print_tables`."""
        if self.options.as_json:
            typer.echo(json.dumps(figures))
        else:
            print_tables()


def _overhead(asked: Benchmark) -> None:
    from rollouthub.bench.overhead import measure_overhead
    from rollouthub.cli.bench.bench_tables import print_overhead

    report = measure_overhead(
        asked.options.concurrency or [32, 256, 2000],
        asked.options.rollouts or 3000,
        lanes=asked.options.lane or _lanes(asked.say),
        with_memory=asked.options.memory,
        say=asked.say,
    )
    asked.show(report.as_json(), lambda: print_overhead(results(), report))


def _serving(asked: Benchmark) -> None:
    from rollouthub.bench.env_server import as_json, measure_serving
    from rollouthub.cli.bench.bench_tables import print_serving

    rows = run_async(measure_serving, asked.options.rollouts or 3000, asked.options.concurrency or [1, 100], asked.say)
    asked.show(as_json(rows), lambda: print_serving(results(), rows))


def _gateway(asked: Benchmark) -> None:
    from rollouthub.bench.gateway import measure_gateway
    from rollouthub.cli.bench.bench_tables import print_gateway

    report = run_async(
        measure_gateway, asked.options.rollouts or 3000, asked.options.concurrency or [1, 32, 500], asked.say
    )
    asked.show(report.as_json(), lambda: print_gateway(results(), report))


def _latency(asked: Benchmark) -> None:
    from rollouthub.bench.latency import measure_latency
    from rollouthub.cli.bench.bench_tables import print_latency

    report = measure_latency(
        (asked.options.concurrency or [2000])[0], asked.options.latency, asked.options.rollouts or 1, asked.say
    )
    asked.show(report.as_json(), lambda: print_latency(results(), report))


def _ray(asked: Benchmark) -> None:
    from rollouthub.bench.ray import measure_ray
    from rollouthub.cli.bench.bench_tables import print_ray

    report = measure_ray(
        asked.options.rollouts or 20_000, (asked.options.concurrency or [256])[0], asked.options.workers, asked.say
    )
    asked.show(report.as_json(), lambda: print_ray(results(), report))


def _schedule(asked: Benchmark) -> None:
    from rollouthub.bench.schedule import SIZES, as_json, measure_schedule
    from rollouthub.cli.bench.bench_tables import print_schedule

    rows = measure_schedule([asked.options.rollouts] if asked.options.rollouts else SIZES, asked.say)
    asked.show(as_json(rows), lambda: print_schedule(results(), rows))


def _layers(asked: Benchmark) -> None:
    from rollouthub.bench.layers import measure_layers
    from rollouthub.cli.bench.bench_tables import print_layers
    from rollouthub.engine.run_request import build_request

    settings = {"environments": ["arithmetic"], "concurrency": (asked.options.concurrency or [32])[0], **asked.request}
    report = measure_layers(
        build_request(settings, "hub bench layers"),
        asked.say,
        rollouts=asked.options.rollouts,
        workers=asked.options.workers,
        is_quick=asked.options.quick,
    )
    asked.show(report.as_json(), lambda: print_layers(results(), report))


def _export(asked: Benchmark) -> None:
    from rollouthub.bench.export import QUICK_ROLLOUTS, ROLLOUTS, measure_export
    from rollouthub.cli.bench.bench_tables import print_export

    report = measure_export(asked.options.rollouts or (QUICK_ROLLOUTS if asked.options.quick else ROLLOUTS), asked.say)
    asked.show(report.as_json(), lambda: print_export(results(), report))


def _lanes(say: Callable[[str], None]) -> list[str]:
    """All lanes of the overhead benchmark, without those that need litellm where litellm is not installed."""
    from rollouthub.bench.overhead import LANES
    from rollouthub.models.litellm.package import find_litellm

    if find_litellm() is not None:
        return list(LANES)
    say(f"without litellm's lane: {pip_install('litellm')}")
    return [lane for lane in LANES if "litellm" not in lane]


BENCHES: Mapping[str, Callable[[Benchmark], None]] = {
    "overhead": _overhead,
    "serving": _serving,
    "gateway": _gateway,
    "latency": _latency,
    "layers": _layers,
    "ray": _ray,
    "schedule": _schedule,
    "export": _export,
}
