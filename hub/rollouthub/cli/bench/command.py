"""The command `hub bench` and its options."""

from typing import Annotated

import typer

from rollouthub.cli.bench.bench_options import BenchOptions
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings

GROUP = "rollouthub.benches"
"""Entry-point group of benchmarks in the sibling packages: functions of (provider, quick, as_json)."""


class BenchCommand(SettingsCommand):
    """`hub bench`: the settings of the run that `layers` measures."""

    options = BenchOptions
    taken = ("set", "model", "base_url", "roles")


@BenchCommand.of
def bench(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            help="overhead, serving, gateway, latency, layers, ray, schedule, export, sandbox, registry, tui or view."
        ),
    ] = "overhead",
) -> None:
    """Measure the hub's own costs: CPU and memory of its parts, and the time and rate of sandboxes and exports.

    `overhead`: CPU per one-tool rollout (2 model calls, 1 tool call, verified, durable) against a bare client's floor.
    The model is an instant mock server in a process of its own, whose CPU does not count.

    `serving`: CPU of an environment server per tool call in both eras of MCP, and per episode.

    `gateway`: CPU of the gateway per tool call and model call of agents outside, and memory of open episodes.

    `latency`: the rate of one process with 2,000 episodes in flight, as a share of what a model of 5 s a call allows.

    `layers`: model, environment, verifier, transport, store and schedule, each alone; then whole runs in one process,
    with a served environment, on Ray and with another model; and which layer holds each of them back.

    `ray`: CPU of the driver and of its workers on a Ray cluster, beside the same run in one process.

    `schedule`: CPU of the schedule for each sample, with 64 workers in virtual time.

    `export`: speed (turns per second) and memory of each training format and trainer's records, over 100,000 turns.

    `sandbox`: time of an exec and of a ready sandbox, and how fast the warm pool refills, beside the bare engine.

    `registry`: search, publish and rebuild of a large registry, and many publishers at once.

    `view`: `hub view` from outside: CPU of each page, time to the first page of a large run, memory.

    `tui`: `hub watch` on a live run: CPU of a frame, keys, memory, opening large runs, and what being watched costs.
    """
    from rollouthub.cli.bench.benchmarks import BENCHES, Benchmark
    from rollouthub.cli.console import remarks
    from rollouthub.errors import UnknownNameError
    from rollouthub.plugins.entry_points import shipped_plugins

    console, options, given = remarks(), given_options(ctx, BenchOptions), given_settings(ctx)
    others = shipped_plugins(GROUP)
    if name in others:
        others[name].entry.load()(options.provider, options.quick, options.as_json)
        return
    if name not in BENCHES:
        raise UnknownNameError("benchmark", name, [*BENCHES, *others])
    if options.environment is not None:
        given["environments"] = [options.environment]
    BENCHES[name](Benchmark(options, given, say=lambda text: console.print(text, style="dim")))
