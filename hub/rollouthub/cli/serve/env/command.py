"""`hub serve env`: serves an environment from a process of its own, to the hub and to any MCP client."""

from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.serve.env.env_options import ServeEnvOptions
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings


class ServeEnvCommand(SettingsCommand):
    """`hub serve env`: takes the run settings that apply to one environment."""

    options = ServeEnvOptions
    taken = ("set", "roles", "traces", "wall", "trust")


@ServeEnvCommand.of
def serve_env(
    ctx: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.environments, metavar="ENV", help="An environment's name, or a file: ./dice.py"
        ),
    ] = None,
) -> None:
    """Serve one environment as an MCP server.

    Agents get its tools over MCP; the hub opens and scores its episodes over HTTP, on a listener of its own.

    The control plane's credential is $ROLLOUTHUB_CONTROL_TOKEN, or a new one in a file that only you can read.
    """
    # Here and not above: a server's libraries are loaded by who serves, not by `hub --help`.
    from rollouthub.cli.serve.env.action import serve_for_people
    from rollouthub.errors import UsageError
    from rollouthub.hosting.server.ordered_server import serve_ordered

    options = given_options(ctx, ServeEnvOptions)
    if options.from_stdin:
        raise typer.Exit(serve_ordered())
    if name is None:
        raise UsageError("what is to be served? name an environment: hub serve env arithmetic")
    raise typer.Exit(serve_for_people(name, given_settings(ctx), options))
