"""Quantiles by nearest rank: always a value that was seen, the smallest that a share of all do not exceed."""

import math
from collections.abc import Iterable, Sequence

QUANTILES = (0.5, 0.95, 0.99)
"""Those that tables show."""


def rank(q: float, count: int) -> int:
    """The place of a quantile among so many sorted values, counted from 1."""
    return max(1, math.ceil(q * count))


def quantile(ranked: Sequence[float], q: float) -> float:
    """The value at a quantile of sorted values, of which there is one at least."""
    return ranked[rank(q, len(ranked)) - 1]


def quantiles(values: Iterable[float], qs: Sequence[float] = QUANTILES) -> tuple[float, ...]:
    """The values at quantiles of unsorted ones, of which there is one at least."""
    ranked = sorted(values)
    return tuple(quantile(ranked, q) for q in qs)
