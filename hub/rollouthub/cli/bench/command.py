"""`hub bench`: what the hub itself costs."""

from importlib.metadata import entry_points
from typing import Annotated

import typer

from rollouthub.cli.options import BaseUrlOption, RoleOption, SetOption, run_settings

GROUP = "rollouthub.benches"
"""The sibling packages' own benchmarks: functions of (provider, quick, as_json)."""


def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="One of overhead, serving, gateway, latency, layers, ray, schedule, export, sandbox, registry or tui."
        ),
    ] = "overhead",
    rollouts: Annotated[
        int | None,
        typer.Option(
            min=10, help="Rollouts at each level: 3,000; of `ray` 20,000, of `export` 25,000; of `schedule` samples."
        ),
    ] = None,
    concurrency: Annotated[
        list[int] | None, typer.Option("-c", "--concurrency", min=1, help="Levels to measure: 32, 256 and 2000.")
    ] = None,
    lane: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these lanes: floor, direct, served, 'two litellm calls', litellm. All by default; the last two "
            "need the extra litellm."
        ),
    ] = None,
    memory: Annotated[bool, typer.Option(help="Also measure how memory grows over 20,000 rollouts.")] = True,
    workers: Annotated[
        int, typer.Option(min=0, help="For `ray` and `layers`: worker processes; with 0, `layers` leaves out Ray.")
    ] = 2,
    latency: Annotated[float, typer.Option(min=0.01, help="For `latency`: seconds that a model call takes.")] = 5.0,
    provider: Annotated[
        str | None, typer.Option(help="For `sandbox`: docker or process; docker if an engine answers.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="For `sandbox`, `layers` and `export`: fewer measurements, for a first look."),
    ] = False,
    environment: Annotated[
        str | None,
        typer.Option("-e", "--env", metavar="ENV", help="For `layers`: the environment; arithmetic by default."),
    ] = None,
    settings: SetOption = None,
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="For `layers`: a model beside the mock model, or another mock model."),
    ] = None,
    base_url: BaseUrlOption = None,
    role: RoleOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the hub's own costs: CPU and memory of its parts, and the time and rate of sandboxes and exports.

    `overhead`: CPU per one-tool rollout (2 model calls, 1 tool call, verified, durable) against a bare client's floor.
    The model is an instant mock server in a process of its own, whose CPU does not count.

    `serving`: CPU of an environment server per tool call in both eras of MCP, and per episode.

    `gateway`: CPU of the gateway per tool call and model call of agents outside, and memory of open episodes.

    `latency`: how near one process with 2,000 episodes in flight comes to the rate that a model of 5 s a call allows.

    `layers`: model, environment, verifier, transport, store and schedule, each alone; then whole runs in one process,
    with a served environment, on Ray and with another model; and which layer holds each of them back.

    `ray`: CPU of the driver and of its workers on a Ray cluster, beside the same run in one process.

    `schedule`: CPU of the schedule for each sample, with 64 workers in virtual time.

    `export`: turns a second and memory of each training format and trainer's records, for a run of 100,000 turns.

    `sandbox`: time of an exec and of a ready sandbox, and how fast the warm pool refills, beside the bare engine.

    `registry`: search, publish and rebuild of a large registry, and many publishers at once.

    `tui`: `hub watch` on a live run: CPU of a frame, keys, memory, opening large runs, and what being watched costs.
    """
    from rollouthub.cli.bench.benchmarks import BENCHES, BenchmarkOptions
    from rollouthub.cli.console import remarks
    from rollouthub.errors import UnknownNameError

    console = remarks()
    others = {
        entry.name: entry for entry in entry_points(group=GROUP) if entry.dist and entry.dist.name == "rollouthub"
    }
    if name in others:
        others[name].load()(provider, quick, as_json)
        return
    if name not in BENCHES:
        raise UnknownNameError("benchmark", name, [*BENCHES, *others])
    BENCHES[name](
        BenchmarkOptions(
            say=lambda text: console.print(text, style="dim"),
            as_json=as_json,
            rollouts=rollouts,
            levels=concurrency or [],
            lanes=lane or [],
            with_memory=memory,
            workers=workers,
            latency=latency,
            is_quick=quick,
            request=run_settings(
                environments=[environment] if environment else None,
                model=model,
                base_url=base_url,
                roles=role,
                set=settings,
            ),
        )
    )
