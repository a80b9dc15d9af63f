"""The options of `hub score`."""

from typing import Annotated

from pydantic import Field

from rollouthub.cli.find_run import RUNS
from rollouthub.cli.options import QuietField, RootField
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
