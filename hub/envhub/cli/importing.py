"""`hub import`: look through tasks in a foreign format, and make an environment of those that can be run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envhub.importers import Candidate


def import_tasks(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="How the tasks are written, such as harbor.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A task, or a folder that holds several.")],
    out: Annotated[
        Path | None, typer.Option(help="Write what can be run into this new folder, with the file `hub run` takes.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the environment, such as network=none."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which tasks of a folder can be run here, and why the others are refused.

    Exit codes: 0 all of them can be run, 1 some are refused, 2 usage.
    """
    from envhub.cli.options import assignments
    from envhub.importers import find_importer

    importer = find_importer(form)
    given = assignments(settings or [], "--set")
    found = importer.look(folder, given)
    runs = sum(candidate.runs for candidate in found)
    written = None if out is None else importer.write(folder, given, out)
    options = "".join(f" --set {setting}" for setting in settings or [])
    command = f"hub run {written}" if written else f"hub run {importer.environment} --set data={folder}{options}"
    if runs < len(found) and not written:
        command += " --skip-bad"
    if as_json:
        rows = [candidate.model_dump(mode="json") | {"runs": candidate.runs} for candidate in found]
        typer.echo(json.dumps({"tasks": rows, "runs": runs, "refused": len(found) - runs, "command": command}))
    else:
        _show(found, runs, command if runs else None)
    raise typer.Exit(0 if runs == len(found) else 1)


def _show(found: "Sequence[Candidate]", runs: int, command: str | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from envhub.cli.console import results

    console = results()
    facts = list(dict.fromkeys(name for candidate in found for name in candidate.facts))
    table = Table("task", "", *facts, "refused for", box=None, pad_edge=False)
    for candidate in found:
        shown = [str(candidate.facts.get(name, "")) for name in facts]
        mark = Text("runs", style="green") if candidate.runs else Text("refused", style="red")
        table.add_row(Text(candidate.id), mark, *map(Text, shown), Text("\n".join(candidate.reasons)))
    console.print(table)
    console.print(f"\n{runs} of {len(found)} can be run.")
    if command:
        console.print(Text(f"Play them: {command} --agent oracle"))
