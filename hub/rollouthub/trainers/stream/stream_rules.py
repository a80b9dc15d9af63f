"""The settings of a supply, beside those of its run."""

from math import ceil
from typing import Literal

from pydantic import Field

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError
from rollouthub.values import Frozen

LEAST_DROPPED = 100
"""Lower bound of the default of `max_dropped`, for small batches."""


class SupplyRules(Frozen):
    """The settings of a supply: how rollouts are handed out."""

    groups: bool = Field(
        default=True,
        description="Hand out whole groups, all samples of a task; else single rollouts as they are scored.",
    )
    batch: int | None = Field(
        default=None,
        ge=1,
        description="Groups (or single rollouts) the trainer takes for one version of its weights; "
        "as many as `concurrency` episodes make by default.",
    )
    max_staleness: int | None = Field(
        default=2,
        ge=0,
        description="Versions a rollout's oldest token may be behind the policy when handed out; None is no bound.",
    )
    stale: Literal["drop", "wait"] = Field(
        default="drop",
        description="What to do with a group that takes so long that the next version would make it stale: `drop` "
        "drops it and plays its task again; `wait` hands out nothing newer before it, so that no group is dropped of a "
        "trainer that takes `batch` groups a version.",
    )
    epochs: int | None = Field(
        default=1, ge=1, description="Times every task is played; None goes on until the consumer has enough."
    )
    shuffle: bool = Field(
        default=True,
        description="Play tasks in another order each epoch, environments mixed; repeatable by the run's `seed`.",
    )
    drop_constant: bool = Field(
        default=False,
        description="Drop groups whose rewards are all equal (no training signal); play other tasks instead (DAPO).",
    )
    band: tuple[float, float] | None = Field(
        default=None,
        description="A curriculum: tasks whose last group passed less often than the first number, or more often than "
        "the second, rest for `band_rest` epochs; (0.1, 0.9) leaves out what is solved or out of reach.",
    )
    band_rest: int = Field(default=4, ge=1, description="Epochs for which a task outside `band` rests.")
    band_from: str | None = Field(
        default=None,
        min_length=1,
        description="Directory of an earlier run whose pass rates the curriculum begins with: its tasks outside `band` "
        "rest first; the rates are kept with this run.",
    )
    max_dropped: int | None = Field(
        default=None,
        ge=1,
        description="Groups that may be dropped, for whatever reason, while one batch is filled; "
        "ten batches by default, at least 100.",
    )
    when_dropped: Literal["raise", "yield"] = Field(
        default="raise",
        description="What to do past `max_dropped`: an error, or constant groups handed out as they are until the "
        "batch is full.",
    )
    min_group: int | None = Field(
        default=None, ge=1, description="Scored samples that a group needs to be handed out; all by default."
    )
    redundancy: int = Field(
        default=0,
        ge=0,
        description="Samples of each task beyond `repeats` that are begun: the first to be scored make the group, and "
        "the stragglers are broken off. Groups lean towards short episodes then.",
    )
    suspect: bool = Field(
        default=False,
        description="Hand out rollouts whose scores their verifier calls suspect as if it did not: trainers learn from "
        "them, too.",
    )
    buffer: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of groups started and not handed out yet; by default what "
        "`max_staleness` allows, or two batches without it.",
    )


class Bounds(Frozen):
    """The rules' numbers, resolved for one request."""

    samples: int
    """Samples begun of one unit: the group's size plus `redundancy`, or 1."""
    size: int
    """Scored members that complete a unit."""
    least_scored: int
    batch: int
    outstanding: int
    """Most units begun and not handed out."""
    max_dropped: int


def bounds_of(rules: SupplyRules, request: RunRequest) -> Bounds:
    """Resolve the rules' defaults for a request.

    Raises:
        ConfigError: the rules contradict each other or the request.
    """
    size = request.repeats if rules.groups else 1
    if not rules.groups and (rules.drop_constant or rules.min_group is not None or rules.redundancy):
        raise ConfigError(
            "drop_constant, min_group and redundancy are about groups, and groups = False hands out single rollouts"
        )
    if rules.band_from is not None and rules.band is None:
        raise ConfigError("band_from says where a curriculum begins, and there is none: give band, such as (0.1, 0.9)")
    if rules.band is not None:
        low, high = rules.band
        if not 0 <= low <= high <= 1:
            raise ConfigError(f"band = {rules.band}: give two pass rates from 0 to 1, the lower one first")
        if not rules.groups:
            raise ConfigError("band is about groups, and groups = False hands out single rollouts")
    if rules.stale == "wait" and rules.max_staleness is None:
        raise ConfigError("stale = 'wait', and max_staleness = None: nothing ever grows stale; give a bound")
    if rules.drop_constant and size < 2:
        raise ConfigError("drop_constant needs groups of two samples or more; give repeats")
    if rules.min_group is not None and rules.min_group > size:
        raise ConfigError(f"min_group = {rules.min_group} is more than a group has; repeats = {request.repeats}")
    if rules.min_group == 1 and rules.drop_constant:
        raise ConfigError("min_group = 1 and drop_constant: a group of one is constant; give min_group = 2 or more")
    samples = size + rules.redundancy
    batch = rules.batch or ceil(request.concurrency / samples)
    allowed = 2 * batch if rules.max_staleness is None else (rules.max_staleness + 1) * batch
    return Bounds(
        samples=samples,
        size=size,
        least_scored=rules.min_group or size,
        batch=batch,
        outstanding=allowed
        if rules.buffer is None
        else min(rules.buffer, allowed)
        if rules.max_staleness is not None
        else rules.buffer,
        max_dropped=rules.max_dropped or max(LEAST_DROPPED, 10 * batch),
    )
