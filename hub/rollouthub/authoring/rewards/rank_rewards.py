"""Rewards by rank among several values."""

from collections.abc import Sequence

from rollouthub.authoring.rewards.reward_function import finite


def best_of_n(values: Sequence[float]) -> list[float]:
    """1 for the best value and 0 for the others; equally good values share the 1.

    Raises:
        ValueError: a value is not finite.
    """
    if not values:
        return []
    best = max(finite(value, "a value to rank") for value in values)
    winners = sum(value == best for value in values)
    return [1 / winners if value == best else 0.0 for value in values]


def by_rank(values: Sequence[float]) -> list[float]:
    """Ranks spread evenly from 0 (lowest) to 1 (highest); equal values share the mean of their ranks, and a single
    value has 0.5.

    Raises:
        ValueError: a value is not finite.
    """
    for value in values:
        finite(value, "a value to rank")
    if len(values) < 2:
        return [0.5] * len(values)
    return [
        (sum(other < value for other in values) + (sum(other == value for other in values) - 1) / 2) / (len(values) - 1)
        for value in values
    ]
