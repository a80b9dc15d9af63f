"""The options of `hub compare`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from rollouthub.cli.find_run import RUNS
from rollouthub.cli.options import ConfigField, JsonField, QuietField, RootField
from rollouthub.settings import Option
from rollouthub.values import Frozen


class CompareOptions(Frozen):
    """Options of `hub compare`: the models, and where their runs are stored."""

    model: Annotated[tuple[str, ...], Option(short="-m", names="model")] = Field(
        default=(), description="A model to compare. The first is the baseline."
    )
    base_url: Annotated[tuple[str, ...], Option(metavar="[MODEL=]URL")] = Field(
        default=(), description="A model's server; without MODEL=, the server of all models that need one."
    )
    config: ConfigField = None
    project: int | None = Field(
        default=None,
        ge=1,
        description="Extrapolate cost and time to N tasks; when models play, to the whole split by default.",
    )
    output: Annotated[Path | None, Option(short="-o")] = Field(
        default=None,
        description="Where the models' runs go; runs/compare-ENV-TIME by default. FILE.html or FILE.md writes a "
        "report.",
    )
    resume: bool = Field(default=False, description="Continue the comparison that -o names.")
    root: RootField = RUNS
    as_json: JsonField = False
    quiet: QuietField = False
