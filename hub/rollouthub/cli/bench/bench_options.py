"""The options of `hub bench`."""

from typing import Annotated

from pydantic import Field

from rollouthub.cli.options import JsonField
from rollouthub.settings import Option
from rollouthub.values import Frozen


class BenchOptions(Frozen):
    """Options of `hub bench`: which parts are measured, and with how many rollouts and workers."""

    rollouts: int | None = Field(
        default=None,
        ge=10,
        description="Rollouts at each level (`schedule`: samples); 3,000 by default, `ray` 20,000, `export` 25,000.",
    )
    concurrency: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Option(short="-c")] = Field(
        default=(), description="Levels to measure: 32, 256 and 2000."
    )
    lane: tuple[str, ...] = Field(
        default=(),
        description="Only these lanes: floor, direct, served, 'two litellm calls', litellm. All by default; the last "
        "two need the extra litellm.",
    )
    memory: Annotated[bool, Option("--memory/--no-memory")] = Field(
        default=True, description="Also measure how memory grows over 20,000 rollouts."
    )
    workers: int = Field(
        default=2,
        ge=0,
        description="For `ray` and `layers`: worker processes; with 0, `layers` leaves out Ray.",
    )
    latency: float = Field(default=5.0, ge=0.01, description="For `latency`: seconds that a model call takes.")
    provider: str | None = Field(
        default=None, description="For `sandbox`: docker or process; docker if an engine answers."
    )
    quick: bool = Field(
        default=False, description="For `sandbox`, `layers` and `export`: fewer measurements, for a first look."
    )
    environment: Annotated[str | None, Option("--env", short="-e", metavar="ENV")] = Field(
        default=None, description="For `layers`: the environment; arithmetic by default."
    )
    as_json: JsonField = False
