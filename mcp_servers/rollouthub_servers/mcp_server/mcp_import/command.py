"""The command `hub import mcp`."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rollouthub_servers.mcp_server.mcp_import.environment_folder import Imported


def import_mcp(
    out: Annotated[Path, typer.Option("-o", "--output", help="The new folder.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND ARGS…", help="The command that starts a server on stdio.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NS/NAME", help="The environment's name; local/FOLDER by default.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="The URL of a running server (Streamable HTTP).")] = None,
    token_variable: Annotated[
        str | None,
        typer.Option(metavar="VARIABLE", help="With --url: the variable that holds the server's bearer token."),
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE@sha256:…", help="A container image with a server; the server's arguments follow `--`."
        ),
    ] = None,
    requirements: Annotated[
        list[str] | None,
        typer.Option(
            "--requirement", metavar="REQUIREMENT", help="A Python distribution that the server needs: 'mcp>=1.12,<2'."
        ),
    ] = None,
    hidden_tools: Annotated[
        list[str] | None, typer.Option("--hide", metavar="TOOL", help="A tool of the server that agents do not get.")
    ] = None,
    python: Annotated[
        Path | None, typer.Option(help="The Python that starts the server for this import; the hub's own by default.")
    ] = None,
    terms: Annotated[
        str | None, typer.Option("--license", metavar="SPDX", help="The licence of the environment, such as MIT.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start an MCP server once, list its tools, and write an environment around it.

    The environment is valid at once; replace its example tasks and verifier by your own.
    """
    from rollouthub.plugins.importers import Identity
    from rollouthub_servers.mcp_server.mcp_import.environment_folder import import_server
    from rollouthub_servers.mcp_server.mcp_import.imported_server import ImportedServer, said

    asked = ImportedServer(
        command=() if image is not None else tuple(command or ()),
        url=url,
        token_variable=token_variable,
        image=image,
        args=tuple(command or ()) if image is not None else (),
        requirements=tuple(requirements or ()),
        hidden_tools=tuple(hidden_tools or ()),
    )
    interpreter = sys.executable if python is None else str(python.absolute())
    made = import_server(said(asked), out, Identity(name=name, license=terms), interpreter)
    if as_json:
        told = {"name": made.name, "folder": str(made.folder), "tools": list(made.tools), "left": list(made.left)}
        typer.echo(json.dumps({**told, "remarks": list(made.remarks), "commands": list(made.commands)}))
    else:
        _show(made)


def _show(made: "Imported") -> None:
    from rich.text import Text

    from rollouthub.cli.console import remarks, results

    console = results()
    console.print(
        Text(f"{made.name} in {made.folder}, with {len(made.tools)} tools: {', '.join(made.tools) or 'none'}")
    )
    console.print("\nLeft to do:")
    for step in made.left:
        console.print(Text(f"- {step}"))
    console.print("\nTry it:")
    for line in made.commands:
        console.print(Text(f"  {line}"))
    for remark in made.remarks:
        remarks().print(Text(remark))
