"""`hub serve env`: an environment in a process of its own, for the hub and for any MCP client."""

from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.options import TracesOption


def serve_env(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.environments, metavar="ENV", help="An environment's name, or a file: ./dice.py"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting of the environment.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address that the agent plane listens on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 0,
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="URL at which agents reach the agent plane, if it differs.")
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="unix:PATH or HOST:PORT of the control plane; a private socket if unset."),
    ] = None,
    roles: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="ROLE=MODEL", help="A model that the environment itself calls, by its role."),
    ] = None,
    ttl: Annotated[float, typer.Option(min=1, help="Seconds after which an episode is closed.")] = 7200.0,
    traces: TracesOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the addresses it serves on as one line of JSON.")
    ] = False,
    from_stdin: Annotated[
        bool,
        typer.Option("--from-stdin", help="Read the request from stdin and stop when stdin ends; the hub uses this."),
    ] = False,
) -> None:
    """Serve one environment as an MCP server.

    Agents get its tools over MCP; the hub opens and scores its episodes over HTTP, on a listener of its own.

    The control plane's credential is $ROLLOUTHUB_CONTROL_TOKEN, or a new one in a file that only you can read.
    """
    # Here and not above: a server's libraries are loaded by who serves, not by `hub --help`.
    from rollouthub.cli.serve.env.action import serve_for_people
    from rollouthub.errors import UsageError
    from rollouthub.hosting.server.ordered_server import serve_ordered

    if from_stdin:
        raise typer.Exit(serve_ordered())
    if name is None:
        raise UsageError("what is to be served? name an environment: hub serve env arithmetic")
    code = serve_for_people(
        name,
        settings=settings or [],
        roles=roles or [],
        control=control,
        agent_host=host,
        agent_port=port,
        public_url=public_url,
        ttl_seconds=ttl,
        traces=traces,
        as_json=as_json,
    )
    raise typer.Exit(code)
