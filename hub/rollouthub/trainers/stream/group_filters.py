"""Which groups are worth learning from, beyond those whose rewards differ: filters with names, counted apart."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rollouthub.errors import SupplyError, describe
from rollouthub.trainers.stream.rollout_group import RolloutGroup

GroupFilter = Callable[[RolloutGroup], bool]
"""Whether a group is kept. What it is called is what its drops are counted under."""


@dataclass(frozen=True, slots=True)
class RewardBand:
    """Keeps groups whose mean reward is within bounds: neither solved already nor out of reach."""

    low: float = 0.0
    high: float = 1.0

    def __call__(self, group: RolloutGroup) -> bool:
        return self.low <= fmean(group.rewards) <= self.high


@dataclass(frozen=True, slots=True)
class RewardSpread:
    """Keeps groups whose rewards differ by a standard deviation (n - 1) of so much at least."""

    least: float

    def __call__(self, group: RolloutGroup) -> bool:
        return len(group.rewards) > 1 and stdev(group.rewards) >= self.least


def name_of(keep: GroupFilter) -> str:
    """What a filter is called: a function by its name, an object by its class."""
    name = getattr(keep, "__name__", None)
    return name if isinstance(name, str) else type(keep).__name__


def first_against(filters: Sequence[GroupFilter], group: RolloutGroup) -> str | None:
    """The name of the first filter that does not keep a group; None where all do.

    Raises:
        SupplyError: one broke.
    """
    for keep in filters:
        try:
            is_kept = keep(group)
        except Exception as error:
            raise SupplyError(
                f"group filter {name_of(keep)!r} broke on group {group.group_id} with rewards "
                f"{group.rewards}: {describe(error)}"
            ) from error
        if not is_kept:
            return name_of(keep)
    return None
