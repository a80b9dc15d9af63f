"""The function behind `hub bench sandbox`."""

import json
from collections.abc import Callable

import typer

PROVIDERS = ("docker", "process")


def bench(provider: str | None, quick: bool, as_json: bool) -> None:
    """Measure what sandboxes cost on this machine and print the figures as a table or as JSON.

    Raises:
        UsageError: there is no such provider, or no engine answers.
        HubError: a sandbox could not be opened, or failed while it was measured.
    """
    from rollouthub.cli.console import remarks, results
    from rollouthub.errors import UnknownNameError
    from rollouthub.event_loop import run_async
    from rollouthub_sandboxes.bench.measure import QUICK, Amounts, measure_docker, measure_process
    from rollouthub_sandboxes.bench.sandbox_figures import report_table

    if provider is not None and provider not in PROVIDERS:
        raise UnknownNameError("sandbox to measure", provider, PROVIDERS)
    console = remarks()

    def say(text: str) -> None:
        console.print(text, style="dim", markup=False)

    amounts = QUICK if quick else Amounts()
    chosen = provider or run_async(_choose, say)
    measure = measure_docker if chosen == "docker" else measure_process
    report = run_async(measure, amounts, say)
    if as_json:
        typer.echo(json.dumps(report.as_json()))
    else:
        results().print(report_table(report))


async def _choose(say: Callable[[str], None]) -> str:
    from rollouthub_sandboxes.engine.engine import NoEngine, connect_engine

    try:
        async with connect_engine():
            return "docker"
    except NoEngine as error:
        say(f"{error}; measuring the sandbox 'process'")
        return "process"
