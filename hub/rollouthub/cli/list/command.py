"""`hub list`: lists environments and plug-ins."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.errors import ConfigError
from rollouthub.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rollouthub.plugins.installed import Installation


def list_environments(
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATTERN]…", help="With --available: names, formats or licences, such as 'math*' or MIT."
        ),
    ] = None,
    is_available: Annotated[
        bool,
        typer.Option("--available", help="List what can be fetched or imported with one command, and that command."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List what is installed: environments, and plug-ins of every other kind. With --available, what else there is.

    Exit codes: 0 all are listed, 1 some installed ones are damaged: they are named and left out.
    """
    if is_available:
        _list_available(patterns or (), as_json=as_json)
        return
    if patterns:
        raise ConfigError(f"{patterns[0]!r}: patterns go with --available; hub list names all that is installed")
    _list_installed(as_json=as_json)


def _list_available(patterns: "Sequence[str]", *, as_json: bool) -> None:
    from rollouthub.cli.list.available import available, show_available

    rows = available(patterns)
    if as_json:
        typer.echo(json.dumps({"available": rows}))
    else:
        show_available(rows)


def _list_installed(*, as_json: bool) -> None:
    from rich.text import Text

    from rollouthub.cli.command_group import COMMANDS
    from rollouthub.cli.console import remarks
    from rollouthub.plugins.entry_points import (
        AGENTS,
        EXPORT_FORMATS,
        JUDGES,
        SANDBOXES,
        TRACKERS,
        TRAINER_ADAPTERS,
        VIEWS,
        plugins,
    )
    from rollouthub.plugins.importers import IMPORTERS
    from rollouthub.plugins.installed import installations

    environments = _registered()
    readable, damaged = installations().readable()
    installed = [_row(each) for each in readable]
    others = {
        kind: [{"name": name, "distribution": plugin.distribution} for name, plugin in plugins(group).items()]
        for kind, group in (
            ("agents", AGENTS),
            ("export_formats", EXPORT_FORMATS),
            ("trainers", TRAINER_ADAPTERS),
            ("judges", JUDGES),
            ("sandboxes", SANDBOXES),
            ("importers", IMPORTERS),
            ("trackers", TRACKERS),
            ("report_formats", VIEWS),
            ("commands", COMMANDS),
        )
    }
    if as_json:
        said = {"environments": environments, "installed": installed, **others}
        typer.echo(json.dumps({**said, "damaged": [str(each) for each in damaged]}))
    else:
        _show(environments, installed, {kind: [each["name"] for each in found] for kind, found in others.items()})
    for each in damaged:
        remarks().print(Text.assemble(("error: ", "bold red"), one_line(str(each), 2000)), soft_wrap=True)
    if damaged:
        raise typer.Exit(1)


def _show(
    environments: "Sequence[dict[str, str | None]]",
    installed: "Sequence[dict[str, str | bool | None]]",
    others: "Mapping[str, Sequence[str]]",
) -> None:
    from rich.table import Table
    from rich.text import Text

    from rollouthub.cli.console import results

    console = results()
    if installed:
        table = Table("installed", "version", "from", "signed by", "wall", "what it is", box=None, pad_edge=False)
        for row in installed:
            signer = str(row["key_id"] or "no key")[:12]
            wall = "yes" if row["wall"] else "no: trusted"
            cells = (row["name"], row["version"], row["source"] or "", signer, wall, row["summary"])
            # What publishers and registries wrote drives no terminal.
            table.add_row(*(Text(one_line(str(cell))) for cell in cells))
        console.print(table)
        console.print()
    table = Table("environment", "version", "from", "agent", "what it is", box=None, pad_edge=False)
    for row in environments:
        table.add_row(row["name"], row["version"], row["distribution"], row["agent"] or "", row["summary"])
    console.print(table)
    console.print(f"\nagents: {', '.join(others['agents'])}; each environment's own plays unless -a names another")
    console.print(f"export formats: {', '.join(others['export_formats'])} (hub export --to)")
    console.print(f"training systems: {', '.join(others['trainers'])}")
    console.print(f"judges: {', '.join(others['judges'])} (env.toml, [verifier] judge)")
    console.print(f"sandbox providers: {', '.join(others['sandboxes'])} (--set sandbox=NAME)")
    console.print(f"importers: {', '.join(others['importers'])} (hub import NAME)")
    console.print(f"trackers: {', '.join(others['trackers'])} (hub run --track)")
    console.print(f"report formats: {', '.join(others['report_formats'])} (hub report --format)")
    if commands := [name for name in others["commands"] if "/" in name]:  # the hub's own are in `hub --help`
        console.print(f"commands of others: {', '.join(commands)} (hub NAME)")


def _registered() -> list[dict[str, str | None]]:
    """Rows for the shipped environments, and for those that other distributions in this interpreter register."""
    from rollouthub.errors import HubError
    from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
    from rollouthub.plugins.environments import find_environment

    environments: list[dict[str, str | None]] = []
    for name, plugin in plugins(ENVIRONMENTS).items():
        summary, version, agent = plugin.summary, plugin.version, None
        if plugin.is_shipped:  # others' code is for a process of its own
            try:
                found = find_environment(name)
                summary, version = found.summary, found.environment.version
                agent = found.environment.default_agent
            except HubError as error:
                summary, version = f"cannot be loaded: {error}", ""
        said = {"name": name, "version": version, "distribution": plugin.distribution, "agent": agent}
        environments.append({**said, "summary": summary})
    return environments


def _row(installation: "Installation") -> dict[str, str | bool | None]:
    """The row for one version of an environment installed from a bundle."""
    locked = installation.locked
    return {
        "name": locked.name,
        "version": locked.version,
        "source": locked.source,
        "key_id": locked.key_id,
        "bundle": locked.bundle,
        "dependencies": locked.dependencies_digest,
        "python": locked.python,
        "wall": not installation.needs_no_wall,
        "summary": installation.summary,
    }
