"""`hub connect`: an episode as an MCP server on stdin and stdout, for apps that start such servers."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from rollouthub.cli import completion
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings, given_words
from rollouthub.gateway.app_configs import App
from rollouthub.settings import Option
from rollouthub.values import Frozen


class ConnectOptions(Frozen):
    """Options of `hub connect`: the task, and where the record goes."""

    task: str | None = Field(default=None, description="The task's id; a random task by default.")
    output: Annotated[Path | None, Option(short="-o")] = Field(
        default=None,
        description="Where runs are kept, a folder for each start; the user's own store by default.",
    )
    print_config: App | None = Field(
        default=None,
        description="Print the configuration that makes an app start this server, instead of starting it.",
    )


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
