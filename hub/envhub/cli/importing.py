"""`hub import`: make an environment of what is foreign, a folder of tasks or an MCP server; a command each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from envhub.importers import Candidate


class _Formats(TyperGroup):
    """The formats that are registered, each loaded when it is asked for; the contexts are of typer's own click."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in order."""
        from envhub.importers import COMMANDS, IMPORTERS
        from envhub.plugins import plugins

        return sorted({**plugins(IMPORTERS), **plugins(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a format.

        Raises:
            UnknownNameError: nobody registered it.
        """
        from envhub.errors import UnknownNameError
        from envhub.importers import COMMANDS
        from envhub.plugins import plugins

        known = self.list_commands(ctx)
        if cmd_name not in known:
            raise UnknownNameError("importer", cmd_name, known)
        own = plugins(COMMANDS).get(cmd_name)
        made = typer.Typer(add_completion=False, rich_markup_mode="rich")
        made.command(cmd_name, no_args_is_help=True)(_tasks_in(cmd_name) if own is None else own.entry.load())
        return get_command(made)


imports = typer.Typer(
    cls=_Formats,
    no_args_is_help=True,
    help="Make an environment of tasks in a foreign format, or of any MCP server.",
)


@imports.callback()
def _imports() -> None:  # pyright: ignore[reportUnusedFunction]  # typer's
    pass


def _tasks_in(form: str) -> Callable[..., None]:
    """The command for folders of tasks in one format."""

    def import_tasks(
        folder: Annotated[Path, typer.Argument(metavar="DIR", help="A task, or a folder that holds several.")],
        out: Annotated[
            Path | None,
            typer.Option(help="Write what can be run into this new folder, which `hub publish` and `hub run` take."),
        ] = None,
        name: Annotated[
            str | None, typer.Option(metavar="NS/NAME", help="What it is called; local/FOLDER by default.")
        ] = None,
        terms: Annotated[
            str | None, typer.Option("--license", metavar="SPDX", help="The licence of the tasks, such as MIT.")
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
        from envhub.errors import ConfigError
        from envhub.importers import Identity, find_importer

        if out is None and (name is not None or terms is not None):
            raise ConfigError("--name and --license go with --out, which writes an environment")
        importer = find_importer(form)
        given = assignments(settings or [], "--set")
        found = importer.look(folder, given)
        runs = sum(candidate.runs for candidate in found)
        written = None if out is None else importer.write(folder, given, out, Identity(name=name, license=terms))
        options = "".join(f" --set {setting}" for setting in settings or [])
        command = f"hub run {written}" if written else f"hub run {importer.environment} --set data={folder}{options}"
        if runs < len(found) and not written:
            command += " --skip-bad"
        publish = None if out is None else f"hub publish {out}"
        if as_json:
            rows = [candidate.model_dump(mode="json") | {"runs": candidate.runs} for candidate in found]
            said = {"tasks": rows, "runs": runs, "refused": len(found) - runs, "command": command, "publish": publish}
            typer.echo(json.dumps(said))
        else:
            _show(found, runs, command if runs else None, publish)
        raise typer.Exit(0 if runs == len(found) else 1)

    return import_tasks


def _show(found: "Sequence[Candidate]", runs: int, command: str | None, publish: str | None) -> None:
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
    if publish:
        console.print(Text(f"Publish them: {publish}"))
