"""`hub serve registry`: serves a registry over HTTP. Imports what it needs when it runs, so that `--help` is
instant.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def serve_registry(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The registry's directory.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8800,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="URL at which clients reach the registry, if not the address that it listens on."
        ),
    ] = None,
    reads: Annotated[int, typer.Option("--reads", min=1, help="Most requests per minute from one address.")] = 1200,
    writes: Annotated[int, typer.Option("--writes", min=1, help="Most publications per minute with one token.")] = 120,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the addresses it serves on as one line of JSON.")
    ] = False,
) -> None:
    """Serve a registry of environments over HTTP.

    `hub install`, `hub publish`, MCP registry clients and browsers can use it.
    """
    from functools import partial

    from rollouthub.hosting.server.server_lifetime import serve_to_the_end
    from rollouthub_registry.server.access_control import Rates
    from rollouthub_registry.server.http_server import RegistryService
    from rollouthub_registry.server.http_server import serve_registry as serve

    service = RegistryService(directory, host, port, public_url, Rates(reads=reads, writes=writes))

    def ready(url: str) -> None:
        text = json.dumps({"url": url}) if as_json else f"serving {directory} at {url} (Ctrl-C stops it)"
        typer.echo(text)

    async def serving(up: Any, stopped: Any, _: Any) -> None:
        await partial(serve, service)(up, stopped)

    raise typer.Exit(serve_to_the_end(serving, ready))
