"""`hub registry add|list|remove`: which registry a namespace comes from."""

import json
from typing import Annotated

import typer

UrlArgument = Annotated[str, typer.Argument(metavar="URL", help="https://HOST, http://HOST:PORT or file:///FOLDER.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def add(
    url: UrlArgument,
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", metavar="PATTERN", help="lab, or team-*; again for more. All of them by default."),
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="Before all others, not after them.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Name a registry to install from.

    A namespace comes from the first registry in the list whose patterns match it, and from no other, even where that
    one lacks the package. Adding a registry again changes its patterns.
    """
    import os

    from envhub.cli.console import remarks
    from envhub_registry.client.registries import Registries, add_registry
    from envhub_registry.trust.keys import config_folder

    folder = config_folder(os.environ)
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
    typer.echo(f"{entry.url} is asked for {', '.join(entry.namespaces)}")
    for pattern, other in hidden.items():
        remarks().print(f"{pattern} still comes from {other}, which is before it; --first puts this one there")


def show(as_json: JsonOption = False) -> None:
    """List the registries, in order of precedence."""
    import os

    from rich.table import Table
    from rich.text import Text

    from envhub.cli.console import remarks, results
    from envhub_registry.client.registries import VARIABLE, Registries
    from envhub_registry.trust.keys import config_folder

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


def remove(url: UrlArgument, as_json: JsonOption = False) -> None:
    """Ask a registry no more; what was installed from it stays."""
    import os

    from envhub_registry.client.registries import remove_registry
    from envhub_registry.trust.keys import config_folder

    entry = remove_registry(config_folder(os.environ), url)
    typer.echo(json.dumps({"url": entry.url}) if as_json else f"{entry.url} is asked no more")
