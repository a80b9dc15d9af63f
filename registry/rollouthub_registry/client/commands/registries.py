"""`hub registry`: the list of registries to install from, and the commands for running a registry."""

import json
from typing import Annotated

import typer

from rollouthub_registry.server.command import JsonOption, namespace, rebuild_index, token

registry = typer.Typer(
    help="List and change the registries to install from, and manage one of your own (`hub serve registry` serves it).",
    no_args_is_help=True,
)

UrlArgument = Annotated[
    str, typer.Argument(metavar="URL", help="The registry's address: https://HOST, http://HOST:PORT or file:///FOLDER.")
]


@registry.command("add")
def add(
    url: UrlArgument,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            metavar="PATTERN",
            help="Namespaces to take from it: lab, or team-*; repeatable. All of them by default.",
        ),
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="Put it before all others; by default it goes last.")] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Do not check that a registry answers there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Add a registry to install from.

    A namespace comes from the first registry in the list whose patterns match it, and from no other, even where that
    one lacks the package. Adding a registry again changes its patterns. A new address is checked to be a registry.

    Exit codes: 0 added; 1 it cannot be reached; 2 there is no registry.
    """
    import os

    from rollouthub.cli.console import remarks
    from rollouthub.event_loop import run_async
    from rollouthub_registry.client.address import registry_url
    from rollouthub_registry.client.probe import is_registry_at
    from rollouthub_registry.client.registries import Registries, add_registry
    from rollouthub_registry.trust.keys import config_folder

    folder, url = config_folder(os.environ), registry_url(url)
    before = next((each for each in Registries.load(folder, {}).entries if each.url == url), None)
    if before is None and not no_check and not run_async(is_registry_at, url):
        remarks().print(f"there is no registry at {url} yet; the first `hub publish` there makes one")
    entry = add_registry(folder, url, namespaces or (), first=first)
    known = Registries.load(folder, {}).entries
    earlier = known[: known.index(entry)]
    hidden = {
        pattern: other.url
        for pattern in entry.namespaces
        if (other := next((each for each in earlier if each.covers(pattern)), None)) is not None
    }
    if as_json:
        typer.echo(json.dumps({"url": entry.url, "namespaces": list(entry.namespaces), "hidden": hidden}))
        return
    was = "" if before is None or before == entry else f"; before: {', '.join(before.namespaces)}"
    typer.echo(f"{entry.url} is asked for {', '.join(entry.namespaces)}{was}")
    for pattern, other in hidden.items():
        remarks().print(f"{pattern} still comes from {other}, which is before it; --first puts this one there")


@registry.command("list")
def show(as_json: JsonOption = False) -> None:
    """List the registries, in order of precedence."""
    import os

    from rich.table import Table
    from rich.text import Text

    from rollouthub.cli.console import remarks, results
    from rollouthub_registry.client.registries import VARIABLE, Registries
    from rollouthub_registry.trust.keys import config_folder

    folder = config_folder(os.environ)
    written = len(Registries.load(folder, {}).entries)
    rows = [
        {"url": each.url, "namespaces": list(each.namespaces), "from": "file" if place < written else VARIABLE}
        for place, each in enumerate(Registries.load(folder, os.environ).entries)
    ]
    if as_json:
        typer.echo(json.dumps({"registries": rows}))
        return
    if not rows:
        remarks().print("no registry is named; `hub registry add URL` names one")
        return
    table = Table("registry", "namespaces", "", box=None, pad_edge=False)
    for row in rows:
        where = "" if row["from"] == "file" else f"by ${VARIABLE}"
        table.add_row(Text(str(row["url"])), Text(", ".join(row["namespaces"])), where)
    results().print(table)


@registry.command("remove")
def remove(url: UrlArgument, as_json: JsonOption = False) -> None:
    """Remove a registry from the list; what was installed from it stays."""
    import os

    from rollouthub_registry.client.registries import remove_registry
    from rollouthub_registry.trust.keys import config_folder

    entry = remove_registry(config_folder(os.environ), url)
    typer.echo(json.dumps({"url": entry.url}) if as_json else f"{entry.url} is asked no more")


registry.command("rebuild")(rebuild_index)
registry.add_typer(token, name="token")
registry.add_typer(namespace, name="namespace")
