"""The command `hub new`. Imports what it needs when it runs, so that `--help` is instant."""

import json
from pathlib import Path
from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="my_env, or namespace/my_env.")],
    directory: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where the package goes; a folder of the name by default."),
    ] = None,
    is_server: Annotated[
        bool, typer.Option("--server", help="An MCP server that knows nothing of the hub, with tasks and a verifier.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start an environment package of your own: a small working environment, its tests, and how to go on."""
    from rollouthub_registry.scaffold.package import make_package

    made = make_package(name, directory, is_server=is_server)
    if as_json:
        typer.echo(json.dumps(made.as_json()))
        return
    typer.echo(f"{made.directory}/")
    for file in made.files:
        typer.echo(f"  {file}")
    typer.echo("\nTry it:")
    for command in made.commands:
        typer.echo(f"  {command}")
    if made.warning is not None:
        typer.echo(f"\n{made.warning}", err=True)
