"""The command `hub new`. Imports what it needs when it runs, so that `--help` is instant."""

import json
from pathlib import Path
from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The environment's name: my_env, or namespace/my_env.")],
    directory: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="The package's folder; by default a new one with the environment's name.",
        ),
    ] = None,
    is_server: Annotated[
        bool,
        typer.Option(
            "--server", help="Write a plain MCP server, which does not import the hub, with tasks and a verifier."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Create an environment package: a small working environment, its tests, and a list of next steps."""
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
