"""Filters that decide which groups are worth training on; drops are counted by the filter's name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rollouthub.errors import SupplyError, describe
from rollouthub.trainers.stream.rollout_group import RolloutGroup

GroupFilter = Callable[[RolloutGroup], bool]
"""A function that returns whether a group is kept. Drops are counted under its name."""


@dataclass(frozen=True, slots=True)
class RewardBand:
    """Keeps groups whose mean reward is between `low` and `high`: neither always solved nor never."""

    low: float = 0.0
    high: float = 1.0

    def __call__(self, group: RolloutGroup) -> bool:
        return self.low <= fmean(group.rewards) <= self.high


@dataclass(frozen=True, slots=True)
class RewardSpread:
    """Keeps groups whose rewards have a standard deviation (n - 1) of at least `least`."""

    least: float

    def __call__(self, group: RolloutGroup) -> bool:
        return len(group.rewards) > 1 and stdev(group.rewards) >= self.least


def name_of(keep: GroupFilter) -> str:
    """A filter's name: of a function its own, of another object its class's."""
    name = getattr(keep, "__name__", None)
    return name if isinstance(name, str) else type(keep).__name__


def first_against(filters: Sequence[GroupFilter], group: RolloutGroup) -> str | None:
    """The name of the first filter that rejects the group; None if all keep it.

    Raises:
        SupplyError: a filter raised an exception.
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
