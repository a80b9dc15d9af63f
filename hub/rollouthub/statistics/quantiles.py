"""Quantiles by nearest rank: the smallest observed value such that the given share of all values do not exceed it."""

import math
from collections.abc import Iterable, Sequence

QUANTILES = (0.5, 0.95, 0.99)
"""The quantiles that tables show."""


def rank(q: float, count: int) -> int:
    """The rank, from 1, of a quantile among `count` sorted values."""
    return max(1, math.ceil(q * count))


def quantile(ranked: Sequence[float], q: float) -> float:
    """The value at a quantile of sorted values; at least one value is needed."""
    return ranked[rank(q, len(ranked)) - 1]


def quantiles(values: Iterable[float], qs: Sequence[float] = QUANTILES) -> tuple[float, ...]:
    """The values at quantiles of unsorted values; at least one value is needed."""
    ranked = sorted(values)
    return tuple(quantile(ranked, q) for q in qs)
