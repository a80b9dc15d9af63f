"""`hub runs`: lists the stored runs."""

import json
import sys
from typing import Annotated

import typer

from rollouthub.cli.find_run import RUNS, RootOption, newest_first


def runs(root: RootOption = RUNS, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the runs, newest first."""
    from rich.text import Text

    from rollouthub.cli.console import results
    from rollouthub.cli.run_tables import run_facts, runs_table
    from rollouthub.store import BrokenRun

    found = newest_first(root)
    if as_json:
        sys.stdout.write(json.dumps([run_facts(entry) for entry in found]) + "\n")
    elif not found:
        typer.echo(f"no runs in {root}/; make one with: hub run arithmetic", err=True)
    else:
        console = results()
        console.print(runs_table(found, console.width))
        for entry in found:
            if isinstance(entry, BrokenRun):
                console.print(Text.assemble((f"{entry.directory}: ", "red"), entry.problem))
