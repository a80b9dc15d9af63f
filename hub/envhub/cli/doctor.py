"""`hub doctor`: what this machine has, and what is missing for what."""

import json
from typing import Annotated

import typer


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Check this machine: Python, extras, disk, file limits, keys, plug-ins. Exit code 1 if something is broken."""
    from rich.text import Text

    from envhub.cli.console import results
    from envhub.observe.doctor import examine

    findings = examine()
    if as_json:
        typer.echo(json.dumps([finding.as_json() for finding in findings]))
    else:
        console = results()
        marks = {"ok": ("ok     ", "green"), "missing": ("missing", "yellow"), "broken": ("broken ", "bold red")}
        for finding in findings:
            mark, style = marks[finding.state]
            line = Text.assemble((mark, style), "  ", (f"{finding.name:<26}  ", "bold"), finding.says)
            if finding.mend:
                line.append(f"\n{'':37}→ {finding.mend}", style="dim")
            console.print(line)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)
