"""`hub import`: make an environment of what is foreign, a folder of tasks or an MCP server; a command each."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from rollouthub.plugins.importers import Candidate

SHOWN_TASKS, SHOWN_IDS = 200, 5


class _Formats(TyperGroup):
    """The formats that are registered, each loaded when it is asked for; the contexts are of typer's own click."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in order."""
        from rollouthub.plugins.entry_points import plugins
        from rollouthub.plugins.importers import COMMANDS, IMPORTERS

        return sorted({**plugins(IMPORTERS), **plugins(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a format.

        Raises:
            UnknownNameError: nobody registered it.
        """
        from rollouthub.errors import UnknownNameError
        from rollouthub.plugins.entry_points import plugins
        from rollouthub.plugins.importers import COMMANDS

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
    help="Make an environment from tasks in a foreign format, or from any MCP server.",
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
            typer.Option(
                "-o",
                "--output",
                help="Write the tasks that can be run into this new folder, which `hub publish` and `hub run` accept.",
            ),
        ] = None,
        name: Annotated[
            str | None, typer.Option(metavar="NS/NAME", help="The environment's name; local/FOLDER by default.")
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
        """Show which tasks of a folder can be run here, and why the others are refused.

        Exit codes: 0 all of them can be run, 1 some are refused, 2 usage.
        """
        from rollouthub.cli.options import assignments
        from rollouthub.errors import ConfigError
        from rollouthub.plugins.importers import Identity, find_importer

        if out is None and (name is not None or terms is not None):
            raise ConfigError("--name and --license go with -o, which writes an environment")
        importer = find_importer(form)
        given = assignments(settings or [], "--set")
        found = importer.look(folder, given)
        runs = sum(candidate.runs for candidate in found)
        written = None if out is None else importer.write(folder, given, out, Identity(name=name, license=terms))
        options = "".join(f" --set {shlex.quote(setting)}" for setting in settings or [])
        command = (
            f"hub run {written}"
            if written
            else f"hub run {importer.environment} --set {shlex.quote(f'data={folder}')}{options}"
        )
        if runs < len(found) and not written:
            command += " --skip-bad"
        lifting = _lifting([candidate for candidate in found if not candidate.runs])
        publish = None if out is None else f"hub publish {out}"
        if as_json:
            rows = [candidate.model_dump(mode="json") | {"runs": candidate.runs} for candidate in found]
            said: dict[str, Any] = {
                "tasks": rows,
                "runs": runs,
                "refused": len(found) - runs,
                "command": command,
                "publish": publish,
            }
            said["lifted_by"] = lifting
            typer.echo(json.dumps(said))
        else:
            _show(found, command, publish)
            if lifting:
                again = " ".join(
                    ["hub import", form, str(folder), *_settings_beside(settings or [], lifting), *lifting]
                )
                from rich.text import Text

                from rollouthub.cli.console import results

                lifted = sum(bool(candidate.lifted_by) for candidate in found)
                results().print(Text(f"{lifted:,} of the refused can be run, too: {again}"), soft_wrap=True)
        raise typer.Exit(0 if runs == len(found) else 1)

    return import_tasks


def _show(found: "Sequence[Candidate]", command: str, publish: str | None) -> None:
    from rich.text import Text

    from rollouthub.cli.console import results

    console = results()
    runs = [candidate for candidate in found if candidate.runs]
    if runs:
        console.print(_table_of(runs))
    console.print(f"{chr(10) if runs else ''}{len(runs)} of {len(found)} can be run.")
    refused = [candidate for candidate in found if not candidate.runs]
    for reason, ids in _by_reason(refused):
        others = f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
        console.print(Text(f"\nrefused, {len(ids):,}: ", style="red").append(reason, style="default"))
        console.print(Text(f"  {', '.join(ids[:SHOWN_IDS])}{others}", style="dim"))
    if refused:
        console.print()
    if publish and runs:
        console.print(Text(f"Publish them: {publish}"))
        console.print(
            "Where others install them, Dockerfiles are built without a network: --build-network bridge lifts that."
        )
    if runs:
        console.print(Text(f"Play them: {command} --agent oracle"))


def _settings_beside(settings: list[str], lifting: list[str]) -> list[str]:
    """Settings as they were given, but for those that others take the place of."""
    names = {option.partition(" ")[2].strip("'").partition("=")[0] for option in lifting}
    return [f"--set {shlex.quote(setting)}" for setting in settings if setting.partition("=")[0] not in names]


def _table_of(runs: "Sequence[Candidate]") -> "Table":
    from rich.table import Table
    from rich.text import Text

    facts = list(dict.fromkeys(name for candidate in runs for name in candidate.facts))
    table = Table("task", "", *facts, box=None, pad_edge=False)
    for candidate in runs[:SHOWN_TASKS]:
        shown = [str(candidate.facts.get(name, "")) for name in facts]
        table.add_row(Text(candidate.id), Text("runs", style="green"), *map(Text, shown))
    if len(runs) > SHOWN_TASKS:
        table.add_row(Text(f"and {len(runs) - SHOWN_TASKS:,} more (all of them: --json)", style="dim"))
    return table


def _by_reason(refused: "Sequence[Candidate]") -> "list[tuple[str, list[str]]]":
    """The refused tasks' ids, by what they are refused for; the most frequent first."""
    groups: dict[str, list[str]] = {}
    for candidate in refused:
        for reason in candidate.reasons:
            groups.setdefault(reason, []).append(candidate.id)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _lifting(refused: "Sequence[Candidate]") -> list[str]:
    """The options that lift every refusal that options lift, each once; lists are put together."""
    lists: dict[str, list[str]] = {}
    plain: dict[str, None] = {}
    for candidate in refused:
        for option in candidate.lifted_by:
            name, _, value = option.partition("=")
            if value.startswith("["):
                known = lists.setdefault(name, [])
                known += [entry for entry in json.loads(value) if entry not in known]
            else:
                plain[option] = None
    return [*(f"--set {option}" for option in plain), *(f"--set '{name}={json.dumps(v)}'" for name, v in lists.items())]
