"""`hub play`: a person plays an episode in the terminal."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.settings_command import SettingsCommand, given_settings

EnvironmentArgument = Annotated[
    str,
    typer.Argument(
        autocompletion=completion.environments,
        metavar="ENV",
        help="An environment by name (`hub list`), a file, or a server's address.",
    ),
]
PATIENT = {"agent": 86400.0, "episode": 90000.0}
"""Deadlines in seconds for a person, in place of the shorter ones for agents."""


class PlayCommand(SettingsCommand):
    """`hub play`: takes the run settings that apply to one episode played by a person."""

    taken = ("split", "seed", "set", "roles", "seats", "limits.max_turns", "limits.max_seconds")


@PlayCommand.of
def play(
    ctx: typer.Context,
    environment: EnvironmentArgument,
    task: Annotated[
        str | None, typer.Option("--task", metavar="ID", help="The task's id; the first task by default.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Show the task as Markdown, not as the text a model reads.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The run's directory; runs/ENV-human-TIME by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object on stdout.")] = False,
) -> None:
    """Play an episode yourself: its task, its tools as forms, its score at the end.

    Exit codes: 0 scored, 1 not scored, 2 usage, 130 discarded.
    """
    from rollouthub.cli.play.action import play_command
    from rollouthub.engine.task_names import read_names

    request = given_settings(ctx) | {
        "environments": [environment],
        "tasks": [] if task is None else read_names([task], Path.cwd(), "--task"),
        "limit": 1,
        "deadlines": PATIENT,
        "retries": {"infrastructure": 0, "verifier": 0},
        "concurrency": 1,
        "skip_bad": True,
        "agent": "human",
        "agent_set": {"markdown": True} if markdown else {},
    }
    raise typer.Exit(play_command(request, output, as_json))
