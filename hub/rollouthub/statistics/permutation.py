"""Permutation tests of whether two small sets of rewards differ, and the adjustment of p-values for many tests."""

import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

MOST_EXACT = 28
"""Number of rewards up to which all assignments are counted exactly, whatever the values; beyond it, assignments are
sampled.
"""
DRAWS = 1_999
_SLACK = 1e-9
"""Relative tolerance within which two sums count as equal, to allow for rounding."""


@dataclass(frozen=True, slots=True)
class Chance:
    """The probability that chance alone causes a difference as large as the observed one."""

    p: float
    least: float
    """The smallest p-value that any assignment of these rewards to the two sides could give; large for few samples."""
    is_exact: bool


def permutation_test(first: Sequence[float], second: Sequence[float]) -> Chance | None:
    """Two-sided test of the difference of two means; None where one side has no reward.

    Under the null hypothesis every assignment of the rewards to the two sides is equally likely (Fisher 1935, Pitman
    1937). p is the share of assignments whose means differ at least as much as observed. It is exact for rewards with
    two values (the hypergeometric distribution), and for any rewards up to `MOST_EXACT` of them. Beyond that, `DRAWS`
    assignments are sampled with a fixed seed, and p is (hits + 1) / (draws + 1), which does not understate it (Phipson
    and Smyth 2010, doi:10.2202/1544-6115.1585).
    """
    few, pooled = min(first, second, key=len), sorted([*first, *second])
    size = len(few)
    if not size:
        return None
    middle = sum(pooled) * size / len(pooled)
    # Of a sum: the means of both sides differ the more, the farther one side's sum is from its share of all.
    seen = abs(sum(few) - middle)
    widest = max(middle - sum(pooled[:size]), sum(pooled[-size:]) - middle)
    slack = _SLACK * (1.0 + abs(middle))
    counts = Counter(pooled)
    if len(counts) == 1:
        return Chance(1.0, 1.0, is_exact=True)
    if len(counts) > 2 and len(pooled) > MOST_EXACT:
        drawn = random.Random(0)
        hits = sum(abs(sum(drawn.sample(pooled, size)) - middle) >= seen - slack for _ in range(DRAWS))
        return Chance((hits + 1) / (DRAWS + 1), 1 / (DRAWS + 1), is_exact=False)
    ways = _TwoValues(counts, size) if len(counts) == 2 else _AnyValues(pooled, size)
    every = comb(len(pooled), size)
    p, least = (ways.beyond(middle, away - slack) / every if away > slack else 1.0 for away in (seen, widest))
    return Chance(p, least, is_exact=True)


class _TwoValues:
    """Counts the ways to choose a number of rewards out of rewards with two values; the count of one value
    determines the sum.
    """

    def __init__(self, counts: Counter[float], size: int) -> None:
        (low, lows), (high, highs) = sorted(counts.items())
        taken = range(max(0, size - lows), min(size, highs) + 1)
        self._ways = [(k * high + (size - k) * low, comb(highs, k) * comb(lows, size - k)) for k in taken]

    def beyond(self, middle: float, away: float) -> int:
        """Number of choices whose sum is at least as far from the expected sum."""
        return sum(ways for total, ways in self._ways if abs(total - middle) >= away)


class _AnyValues:
    """Counts the ways to choose a number of rewards without enumerating them: the rewards are split in two halves,
    whose subset sums are sorted by subset size (Horowitz and Sahni 1974).
    """

    def __init__(self, pooled: Sequence[float], size: int) -> None:
        half = len(pooled) // 2
        self._here, self._there = subset_sums(pooled[:half]), subset_sums(pooled[half:])
        self._size = size
        for sums in self._there:
            sums.sort()

    def beyond(self, middle: float, away: float) -> int:
        """Number of choices whose sum is at least as far from the expected sum."""
        found = 0
        for taken, sums in enumerate(self._here):
            if 0 <= (more := self._size - taken) < len(self._there):
                others = self._there[more]
                for total in sums:
                    found += bisect_right(others, middle - away - total)
                    found += len(others) - bisect_left(others, middle + away - total)
        return found


def subset_sums(values: Sequence[float]) -> list[list[float]]:
    """The sums of all subsets, by the size of the subset."""
    found: list[list[float]] = [[0.0]] + [[] for _ in values]
    for place, value in enumerate(values):
        for taken in range(place + 1, 0, -1):
            found[taken] += [total + value for total in found[taken - 1]]
    return found


def adjusted(ps: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number, to control the false discovery rate (Benjamini and Hochberg 1995).

    Among the tests whose adjusted value is at most a level, the expected share of false positives is at most that
    level, for independent tests.
    """
    order = sorted(range(len(ps)), key=lambda place: ps[place], reverse=True)
    found = [1.0] * len(ps)
    least = 1.0
    for rank, place in zip(range(len(ps), 0, -1), order, strict=True):
        least = min(least, ps[place] * len(ps) / rank)
        found[place] = least
    return found


def holm(ps: Sequence[float]) -> list[float]:
    """Return p-values adjusted for their number, to control the family-wise error rate (Holm 1979).

    The probability of any false positive among the tests whose adjusted value is at most a level is at most that level,
    whatever the tests' dependence.
    """
    found = [1.0] * len(ps)
    most = 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        most = max(most, min(1.0, ps[place] * (len(ps) - rank)))
        found[place] = most
    return found
