"""`hub score`: scores stored completions, and rescores runs."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.score.score_options import ScoreOptions
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings
from rollouthub.errors import ConfigError


class ScoreCommand(SettingsCommand):
    """`hub score`: takes the run settings that apply to a verifier."""

    options = ScoreOptions
    taken = ("roles", "set", "deadlines.verify", "in_process", "served", "wall", "trust", "batch", "wait")


@ScoreCommand.of
def score(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.runs,
            metavar="FILE|RUN",
            help="JSON lines with task_id and completion or messages (.gz too, - for stdin); or any run.",
        ),
    ],
) -> None:
    """Score stored completions in batch, or a run's rollouts again. Only models that verifiers use are called.

    Exit codes: 0 every line scored, 1 some not, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.score.action import ScoreOrder, score_file
    from rollouthub.cli.score.rescore_action import rescore_run

    order = ScoreOrder(source, given_options(ctx, ScoreOptions), given_settings(ctx))
    is_file = source == "-" or Path(source).is_file() or source.endswith((".jsonl", ".gz", ".json"))
    raise typer.Exit(score_file(order) if is_file and not _is_run(Path(source)) else rescore_run(order))


_LINES = ("chat", "nemo_gym")
"""Formats of whose lines each is scored by itself, and written back with its score."""


def _is_run(path: Path) -> bool:
    """Whether a file is another tool's run, and no file of lines."""
    from rollouthub.analysis.foreign_runs.run_format import format_of_source

    try:
        return path.is_file() and format_of_source(path).name not in _LINES
    except ConfigError:
        return False
