"""Distances of values from their median in robust units (median absolute deviation), which a few outliers do not
distort.
"""

from collections.abc import Sequence
from statistics import median

TO_SIGMA = 1.4826
"""Factor that turns the median absolute deviation into a standard deviation, for a normal distribution."""


def scores(values: Sequence[float], *, floor: float) -> list[float]:
    """Return the robust z-scores of values (Iglewicz and Hoaglin 1993).

    The assumed spread is at least `floor` and at least a tenth of the median: otherwise nearly equal values would turn
    tiny differences into outliers.
    """
    if not values:
        return []
    middle = median(values)
    spread = TO_SIGMA * median(abs(value - middle) for value in values)
    width = max(spread, floor, 0.1 * abs(middle))
    return [(value - middle) / width for value in values]
