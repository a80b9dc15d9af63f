"""`hub connect`: an episode as an MCP server on stdin and stdout, for apps that start such servers."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.options import MaxSecondsOption, MaxTurnsOption, RoleOption, SeedOption, SetOption
from rollouthub.cli.play.command import SplitOption
from rollouthub.gateway.app_configs import App


def connect(
    environment: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.environments,
            metavar="ENV[@VERSION]",
            help="An environment by name (`hub list`), a file, or a server's address.",
        ),
    ],
    task: Annotated[str | None, typer.Option("--task", help="The task's id; a random task by default.")] = None,
    split: SplitOption = None,
    settings: SetOption = None,
    seed: SeedOption = None,
    role: RoleOption = None,
    max_turns: MaxTurnsOption = None,
    max_seconds: MaxSecondsOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Where runs are kept, a folder for each start; the user's own store by default."
        ),
    ] = None,
    print_config: Annotated[
        App | None,
        typer.Option(
            "--print-config",
            help="Print the configuration that makes an app start this server, instead of starting it.",
        ),
    ] = None,
) -> None:
    """Open an episode and be its MCP server on stdin and stdout; score it at submit, or when the app leaves.

    The score goes to the user's store, never to the app: `hub runs` lists it.

    Exit codes: 0 scored, or never played, 1 not scored, 2 usage.
    """
    from rollouthub.cli.connect.action import Chosen, connect_command, print_app_config

    chosen = Chosen(
        environment=environment,
        task=task,
        split=split,
        settings=settings or [],
        seed=seed,
        roles=role or [],
        max_turns=max_turns,
        max_seconds=max_seconds,
        output=output,
    )
    if print_config is not None:
        print_app_config(chosen, print_config)
        return
    raise typer.Exit(connect_command(chosen))
