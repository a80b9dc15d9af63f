"""How far a value is from its fellows, measured by what a few wild values cannot bend: median and MAD."""

from collections.abc import Sequence
from statistics import median

TO_SIGMA = 1.4826
"""Makes the median absolute deviation comparable to a standard deviation, for a normal distribution."""


def scores(values: Sequence[float], *, floor: float) -> list[float]:
    """Robust z-scores (Iglewicz and Hoaglin 1993); a spread below `floor`, or a tenth of the median, counts as that.

    Without it, values that are all but equal would make an outlier of the next digit.
    """
    if not values:
        return []
    middle = median(values)
    spread = TO_SIGMA * median(abs(value - middle) for value in values)
    width = max(spread, floor, 0.1 * abs(middle))
    return [(value - middle) / width for value in values]
