"""Bradley–Terry strengths of candidates, from the results of pairwise comparisons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

PRIOR = 0.5
"""Wins and losses that each candidate is given against an average opponent, so that one that won or lost everything has
a finite strength.
"""
_MOST_STEPS = 1000
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class PairResult:
    """The result of a comparison of two candidates, given by index."""

    first: int
    second: int
    share: float
    """The share that the first won: 1 is a win, 0.5 a tie, 0 a loss."""


def bradley_terry(results: Sequence[PairResult], count: int, *, prior: float = PRIOR) -> list[float]:
    """The log strengths of `count` candidates, with mean 0; the difference of two is the log odds that the first wins.

    The maximum a posteriori of R. A. Bradley and M. E. Terry (1952), by the MM steps of D. R. Hunter (2004). The
    `prior` makes it exist for all results, also if a candidate won or lost everything, or was never compared.

    Raises:
        ValueError: a result has an index out of range, compares a candidate with itself, or has a share outside 0 to 1;
            or the prior is not above 0.
    """
    if not prior > 0 or not math.isfinite(prior):
        raise ValueError(f"prior={prior}: it must be above 0, or who won everything would be infinitely strong")
    wins, met = [prior] * count, [dict[int, float]() for _ in range(count)]
    for result in results:
        one, other = result.first, result.second
        if not (0 <= one < count and 0 <= other < count) or one == other or not 0 <= result.share <= 1:
            raise ValueError(f"{result} is no comparison of two among {count}")
        wins[one] += result.share
        wins[other] += 1 - result.share
        met[one][other] = met[one].get(other, 0.0) + 1
        met[other][one] = met[other].get(one, 0.0) + 1
    strengths = [1.0] * count
    for _ in range(_MOST_STEPS):
        moved = 0.0
        for one in range(count):
            mine = strengths[one]
            expected = 2 * prior / (mine + 1) + sum(
                times / (mine + strengths[other]) for other, times in met[one].items()
            )
            strengths[one] = wins[one] / expected
            moved = max(moved, abs(math.log(strengths[one] / mine)))
        if moved < _CLOSE:
            break
    logs = [math.log(strength) for strength in strengths]
    mean = math.fsum(logs) / count if count else 0.0
    return [log - mean for log in logs]


def expected_shares(strengths: Sequence[float]) -> list[float]:
    """The expected share of wins of each candidate against all others, from 0 to 1; 0.5 for a single one."""
    return [
        math.fsum(_win(mine - strength) for place, strength in enumerate(strengths) if place != own)
        / (len(strengths) - 1)
        if len(strengths) > 1
        else 0.5
        for own, mine in enumerate(strengths)
    ]


def _win(odds: float) -> float:
    """The probability at these log odds, without overflow."""
    return 1 / (1 + math.exp(-odds)) if odds >= 0 else math.exp(odds) / (1 + math.exp(odds))
