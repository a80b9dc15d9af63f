"""`hub connect`: an episode as an MCP server on stdin and stdout, for apps that start such servers."""

from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.connect.connect_options import ConnectOptions
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings, given_words


class ConnectCommand(SettingsCommand):
    """`hub connect`: takes the run settings that apply to one episode of an external agent."""

    options = ConnectOptions
    taken = ("split", "set", "seed", "roles", "seats", "limits.max_turns", "limits.max_seconds")


@ConnectCommand.of
def connect(
    ctx: typer.Context,
    environment: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.environments,
            metavar="ENV[@VERSION]",
            help="An environment by name (`hub list`), a file, or a server's address.",
        ),
    ],
) -> None:
    """Serve one episode to an MCP app on stdin and stdout; score it at submit, or when the app leaves.

    The score goes to the user's store, never to the app: `hub runs` lists it.

    Exit codes: 0 scored, or never played, 1 not scored, 2 usage.
    """
    from rollouthub.cli.connect.action import Chosen, connect_command, print_app_config

    options = given_options(ctx, ConnectOptions)
    chosen = Chosen(environment, options, given_settings(ctx), given_words(ctx))
    if options.print_config is not None:
        print_app_config(chosen, options.print_config)
        return
    raise typer.Exit(connect_command(chosen))
