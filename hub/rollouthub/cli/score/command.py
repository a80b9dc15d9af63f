"""`hub score`: scores stored completions, and rescores runs."""

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from rollouthub.cli import completion
from rollouthub.cli.find_run import RUNS
from rollouthub.cli.options import QuietField, RootField
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings
from rollouthub.settings import Option
from rollouthub.values import Frozen


class ScoreOptions(Frozen):
    """Options of `hub score`: what is scored, and where the scores are written."""

    environment: Annotated[str | None, Option("--env", short="-e", metavar="ENV", names="environment")] = Field(
        default=None, description="The environment whose verifier scores; for a run, its own by default."
    )
    output: Annotated[str | None, Option(short="-o")] = Field(
        default=None, description="The output: FILE.scored.jsonl by default, - for stdout; for a run, RUN-rescored."
    )
    resume: bool = Field(default=False, description="Continue an existing output: lines already scored stay.")
    split: str | None = Field(default=None, description="The split of tasks; the first by default.")
    seed: int | None = Field(default=None, description="The seed the tasks were made with.")
    answer_field: Annotated[str | None, Option(metavar="FIELD")] = Field(
        default=None, description="The field that holds the submitted answer; the last message by default."
    )
    concurrency: Annotated[int, Option(short="-c")] = Field(default=32, ge=1, description="Lines scored at once.")
    limit: int | None = Field(default=None, ge=1, description="Score only the first N lines.")
    skip_bad: bool = Field(
        default=False, description="Keep a line that cannot be scored as a bad_row in the output, and go on."
    )
    as_json: Annotated[bool, Option("--json")] = Field(default=False, description="Print one JSON object on stdout.")
    quiet: QuietField = False
    root: RootField = RUNS


class ScoreCommand(SettingsCommand):
    """`hub score`: takes the run settings that apply to a verifier."""

    options = ScoreOptions
    taken = ("roles", "set", "deadlines.verify", "in_process", "served")


@ScoreCommand.of
def score(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.runs,
            metavar="FILE|RUN",
            help="JSON lines with task_id and completion or messages (.gz too, - for stdin); or a run to score again.",
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
    raise typer.Exit(score_file(order) if is_file else rescore_run(order))
