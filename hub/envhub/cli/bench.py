"""`hub bench`: what the hub itself costs."""

import json
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Annotated

import typer

GROUP = "envhub.benches"
"""The sibling packages' own benchmarks: functions of (provider, quick, as_json)."""


def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark: overhead, serving, gateway or sandbox.")] = "overhead",
    rollouts: Annotated[int, typer.Option(min=10, help="Rollouts at each level of concurrency.")] = 3000,
    concurrency: Annotated[
        list[int] | None, typer.Option("-c", "--concurrency", min=1, help="Levels to measure: 32, 256 and 2000.")
    ] = None,
    lane: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these: floor, direct, served, 'two litellm calls', litellm. All by default; the last two "
            "need the extra litellm."
        ),
    ] = None,
    memory: Annotated[bool, typer.Option(help="Also measure how memory grows over 20,000 rollouts.")] = True,
    provider: Annotated[
        str | None, typer.Option(help="Of `sandbox`: docker or process; docker where an engine answers.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Of `sandbox`: less of everything, for a first look.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure what the hub itself costs: CPU of a rollout, or of an environment server; and what sandboxes do.

    `overhead`: CPU per one-tool rollout (2 model calls, 1 tool call, verified, durable) against a bare client's floor.
    The model is an instant mock server in a process of its own, whose CPU does not count.

    `serving`: CPU of an environment server per tool call in both eras of MCP, and per episode.

    `gateway`: CPU of the gateway per tool call and model call of agents outside, and memory of open episodes.

    `sandbox`: time of an exec and of a ready sandbox, and how fast the warm pool refills, beside the bare engine.
    """
    from envhub.cli.bench_tables import print_overhead, print_serving
    from envhub.cli.console import remarks, results
    from envhub.errors import UnknownNameError
    from envhub.observe.overhead import measure_overhead

    console = remarks()

    def say(text: str) -> None:
        console.print(text, style="dim")

    if name == "serving":
        from envhub.loop import run_async
        from envhub.observe.serving import as_json as rows_as_json
        from envhub.observe.serving import measure_serving

        rows = run_async(measure_serving, rollouts, concurrency or [1, 100], say)
        if as_json:
            typer.echo(json.dumps(rows_as_json(rows)))
        else:
            print_serving(results(), rows)
        return
    if name == "gateway":
        from envhub.cli.bench_tables import print_gateway
        from envhub.loop import run_async
        from envhub.observe.gateway import measure_gateway

        measured = run_async(measure_gateway, rollouts, concurrency or [1, 32, 500], say)
        if as_json:
            typer.echo(json.dumps(measured.as_json()))
        else:
            print_gateway(results(), measured)
        return
    others = {entry.name: entry for entry in entry_points(group=GROUP) if entry.dist and entry.dist.name == "envhub"}
    if name in others:
        others[name].load()(provider, quick, as_json)
        return
    if name != "overhead":
        raise UnknownNameError("benchmark", name, ["overhead", "serving", "gateway", *others])
    report = measure_overhead(
        concurrency or [32, 256, 2000],
        rollouts,
        lanes=lane or _lanes(say),
        with_memory=memory,
        say=say,
    )
    if as_json:
        typer.echo(json.dumps(report.as_json()))
    else:
        print_overhead(results(), report)


def _lanes(say: Callable[[str], None]) -> list[str]:
    """Every lane that can be measured here."""
    from envhub.models.litellm_package import find_litellm
    from envhub.observe.overhead import LANES

    if find_litellm() is not None:
        return list(LANES)
    say("without litellm's lane: pip install 'envhub[litellm]'")
    return [lane for lane in LANES if "litellm" not in lane]
