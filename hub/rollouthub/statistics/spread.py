"""How far the samples of one task differ: whether a run's tasks can be learnt from, and how many are out of reach."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import stdev

from rollouthub.statistics.means import mean_of
from rollouthub.statistics.pass_at_k import GroupCounts


@dataclass(frozen=True)
class GroupSpread:
    """The spread inside the groups of a run; a group is the samples of one task."""

    groups: int
    """Number of groups with at least one scored sample."""
    compared: int
    """Number of these with at least two, which alone can show a spread."""
    floor: float | None
    """Share of groups in which every sample has the lowest result: none passed, or every reward is 0."""
    ceiling: float | None
    """Share of groups in which every sample has the highest result: all passed, or every reward is 1."""
    mixed: float | None
    """Share of compared groups whose rewards differ: those that give a group-relative trainer a gradient."""
    learnability: float | None
    """Mean of p (1 - p) over compared groups with pass and fail, p being the pass rate; 0.25 at most."""
    deviation: float | None
    """Standard deviation of the reward inside groups, from the mean of their variances."""


def deviation_of(rewards: Sequence[float]) -> float | None:
    """Standard deviation of one task's rewards (n - 1), as `GroupCounts.deviation` has it; None with fewer than two."""
    return stdev(rewards) if len(rewards) > 1 else None


def group_spread(groups: Iterable[GroupCounts]) -> GroupSpread:
    """Measure the spread inside groups."""
    scored = compared = floor = ceiling = mixed = judged = 0
    products = variances = 0.0
    for group in groups:
        mean, rate = group.mean_reward, group.pass_rate
        if mean is None:
            continue
        scored += 1
        result = mean if rate is None else rate
        floor += result <= 0
        ceiling += result >= 1
        if group.scored < 2:
            continue
        compared += 1
        # What is left of a sum of squares after rounding is no spread.
        variance = max(0.0, group.reward_sq_sum - group.scored * mean * mean) / (group.scored - 1)
        variances += variance
        mixed += variance > 1e-12
        if rate is not None and group.verdicts > 1:
            judged += 1
            products += rate * (1 - rate)
    spread = mean_of(variances, compared)
    return GroupSpread(
        groups=scored,
        compared=compared,
        floor=mean_of(floor, scored),
        ceiling=mean_of(ceiling, scored),
        mixed=mean_of(mixed, compared),
        learnability=mean_of(products, judged),
        deviation=None if spread is None else sqrt(spread),
    )
