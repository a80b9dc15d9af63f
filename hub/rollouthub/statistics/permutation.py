"""Whether two handfuls of rewards differ by more than chance: a permutation test, and many of them at once."""

import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

MOST_EXACT = 28
"""Rewards up to which every way to deal them out is weighed, whatever they are; of more, ways are drawn."""
DRAWS = 1_999
_SLACK = 1e-9
"""Sums that differ by less, beside what they are, are the same but for rounding."""


@dataclass(frozen=True, slots=True)
class Chance:
    """How often chance alone makes a difference as large as the one seen."""

    p: float
    least: float
    """The smallest p that these very rewards could have given, dealt out otherwise: of few samples it is large."""
    is_exact: bool


def permutation_test(first: Sequence[float], second: Sequence[float]) -> Chance | None:
    """Two-sided test of the difference of two means; None where one side has no reward.

    Were the two sides alike, every way to deal their rewards out would be as likely (Fisher 1935, Pitman 1937). p is
    the share of ways whose means differ at least as much as those seen. It is exact: of rewards with two values, all
    counts are weighed (the hypergeometric distribution); of others all ways, up to `MOST_EXACT` rewards. Beyond that
    `DRAWS` ways are drawn with a fixed seed, and p is (hits + 1) / (draws + 1), which does not understate it (Phipson
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
    """The ways to choose so many of rewards with two values: one count says which."""

    def __init__(self, counts: Counter[float], size: int) -> None:
        (low, lows), (high, highs) = sorted(counts.items())
        taken = range(max(0, size - lows), min(size, highs) + 1)
        self._ways = [(k * high + (size - k) * low, comb(highs, k) * comb(lows, size - k)) for k in taken]

    def beyond(self, middle: float, away: float) -> int:
        """How many ways have a sum at least so far from the middle."""
        return sum(ways for total, ways in self._ways if abs(total - middle) >= away)


class _AnyValues:
    """The ways to choose so many of any rewards, counted without going through them: in two halves, whose sums are
    sorted by how many are taken of each (Horowitz and Sahni 1974)."""

    def __init__(self, pooled: Sequence[float], size: int) -> None:
        half = len(pooled) // 2
        self._here, self._there = _sums(pooled[:half]), _sums(pooled[half:])
        self._size = size
        for sums in self._there:
            sums.sort()

    def beyond(self, middle: float, away: float) -> int:
        """How many ways have a sum at least so far from the middle."""
        found = 0
        for taken, sums in enumerate(self._here):
            if 0 <= (more := self._size - taken) < len(self._there):
                others = self._there[more]
                for total in sums:
                    found += bisect_right(others, middle - away - total)
                    found += len(others) - bisect_left(others, middle + away - total)
        return found


def _sums(values: Sequence[float]) -> list[list[float]]:
    """The sums of every choice, by how many are taken."""
    found: list[list[float]] = [[0.0]] + [[] for _ in values]
    for place, value in enumerate(values):
        for taken in range(place + 1, 0, -1):
            found[taken] += [total + value for total in found[taken - 1]]
    return found


def adjusted(ps: Sequence[float]) -> list[float]:
    """p values adjusted for their number: where those up to a level are believed, that share of them is false.

    The false discovery rate of Benjamini and Hochberg (1995), for tests that do not depend on each other.
    """
    order = sorted(range(len(ps)), key=lambda place: ps[place], reverse=True)
    found = [1.0] * len(ps)
    least = 1.0
    for rank, place in zip(range(len(ps), 0, -1), order, strict=True):
        least = min(least, ps[place] * len(ps) / rank)
        found[place] = least
    return found
