"""The command `hub import`, with one subcommand per format, and `--list`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command


class _Formats(TyperGroup):
    """A command group with one subcommand per registered format, each loaded on first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The formats' names, in order."""
        from rollouthub.plugins.entry_points import plugins
        from rollouthub.plugins.importers import COMMANDS, IMPORTERS

        return sorted({**plugins(IMPORTERS), **plugins(COMMANDS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The subcommand of a format.

        Raises:
            UnknownNameError: no importer of this name is registered.
        """
        from rollouthub.errors import UnknownNameError
        from rollouthub.plugins.entry_points import plugins
        from rollouthub.plugins.importers import COMMANDS

        known = self.list_commands(ctx)
        if cmd_name not in known:
            raise UnknownNameError("importer", cmd_name, known)
        own = plugins(COMMANDS).get(cmd_name)
        made = typer.Typer(add_completion=False, rich_markup_mode="rich")
        made.command(cmd_name, no_args_is_help=True)(import_items if own is None else own.entry.load())
        return get_command(made)


imports = typer.Typer(
    cls=_Formats,
    help="Make environments from foreign formats, or from any MCP server.",
)


@imports.callback(invoke_without_command=True)
def _imports(  # pyright: ignore[reportUnusedFunction]  # typer's
    ctx: typer.Context,
    lists: Annotated[bool, typer.Option("--list", help="List the formats, and what each takes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print one JSON object.")] = False,
) -> None:
    from rollouthub.errors import ConfigError

    if lists and ctx.invoked_subcommand is None:
        _list_formats(as_json)
    elif lists or as_json:
        raise ConfigError("--list stands by itself: hub import --list [--json]; a format's --json follows its name")
    elif ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
        raise typer.Exit(2)


def import_items(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="A folder, file or package; `hub import --list` says what each format takes."
        ),
    ],
    patterns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATTERN]…", help="Which of its items, such as 'math_*'; all of them by default."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Write what can be played into this new folder, which `hub publish` and `hub run` accept.",
        ),
    ] = None,
    is_dry: Annotated[
        bool, typer.Option("--dry-run", help="With -o: say what would be taken, and write nothing.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(metavar="NS/NAME", help="The environment's name; local/FOLDER by default.")
    ] = None,
    terms: Annotated[
        str | None, typer.Option("--license", metavar="SPDX", help="The licence of what is imported, such as MIT.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the environment, such as network=none."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what of a source can be played here, and why the rest is refused; with -o, make environments of it.

    Exit codes: 0 all of it can be played, 1 some is refused, 2 usage.
    """
    from rollouthub.cli.import_.action import ImportOrder, import_chosen

    order = ImportOrder(
        format=str(ctx.info_name),
        source=source,
        patterns=tuple(patterns or ()),
        out=out,
        is_dry=is_dry,
        name=name,
        terms=terms,
        settings=tuple(settings or ()),
        as_json=as_json,
    )
    raise typer.Exit(import_chosen(order))


def _list_formats(as_json: bool) -> None:
    from rollouthub.cli.import_.action import described_formats, show_formats

    found = described_formats()
    if as_json:
        typer.echo(json.dumps({"formats": found}))
    else:
        show_formats(found)
