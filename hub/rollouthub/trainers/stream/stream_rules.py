"""What a supply promises its consumer: settings beside those of the run."""

from math import ceil
from typing import Literal

from pydantic import Field

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError
from rollouthub.frozen import Frozen

LEAST_DROPPED = 100
"""How many unusable groups a small batch may cost at least, before that is an error."""


class SupplyRules(Frozen):
    """How rollouts are handed out."""

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
        description="What becomes of a group that takes so long that the next version would make it stale: `drop` "
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
        description="Drop groups whose rewards are all equal, which teach nothing; play other tasks instead (DAPO).",
    )
    max_dropped: int | None = Field(
        default=None,
        ge=1,
        description="Groups that may be dropped, for whatever reason, while one batch is filled; "
        "ten batches by default, at least 100.",
    )
    when_dropped: Literal["raise", "yield"] = Field(
        default="raise",
        description="What follows past `max_dropped`: an error, or constant groups handed out as they are until the "
        "batch is full.",
    )
    min_group: int | None = Field(
        default=None, ge=1, description="Scored members a group needs to be handed out; all of them by default."
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
        description="Groups begun and not yet handed out, at most; by default what `max_staleness` allows, or two "
        "batches without it.",
    )


class Bounds(Frozen):
    """The rules' numbers for one request."""

    samples: int
    """Begun of one unit: a group's with its redundant ones, or 1."""
    size: int
    """Scored members that make a unit whole."""
    least_scored: int
    batch: int
    outstanding: int
    """Units begun and not handed out, at most."""
    max_dropped: int


def bounds_of(rules: SupplyRules, request: RunRequest) -> Bounds:
    """Fill in what the rules leave open.

    Raises:
        ConfigError: they contradict the request.
    """
    size = request.repeats if rules.groups else 1
    if not rules.groups and (rules.drop_constant or rules.min_group is not None or rules.redundancy):
        raise ConfigError(
            "drop_constant, min_group and redundancy are about groups, and groups = False hands out single rollouts"
        )
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
