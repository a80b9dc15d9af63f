"""The test of whether the differences of pairs, such as one task in two runs, differ from zero."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from rollouthub.statistics.permutation import MOST_EXACT, Chance, subset_sums

MOST_COUNTED = 2_000
"""Number of equal differences up to which the sign test counts exactly; beyond it, the normal distribution is used."""
_SLACK = 1e-9


def paired_test(differences: Sequence[float]) -> Chance | None:
    """Two-sided sign-flip test of the mean of paired differences; None without any pair.

    Under the null hypothesis each difference is as likely with the other sign (Fisher 1935). p is the share of sign
    assignments whose mean is at least as far from zero as observed. It is exact where all differences that are not zero
    have one size (the sign test, McNemar's exact test for passes and failures), and for up to `MOST_EXACT` of any size.
    Beyond that, the sum is taken as normal with the variance of the null hypothesis, the sum of squares.
    """
    if not differences:
        return None
    signed = [difference for difference in differences if abs(difference) > _SLACK]
    if not signed:
        return Chance(1.0, 1.0, is_exact=True)
    sizes = [abs(difference) for difference in signed]
    seen, most = abs(math.fsum(signed)), math.fsum(sizes)
    if max(sizes) - min(sizes) <= _SLACK * max(sizes) and len(signed) <= MOST_COUNTED:
        fewer = min(sum(difference > 0 for difference in signed), sum(difference < 0 for difference in signed))
        return Chance(_sign_test(fewer, len(signed)), _sign_test(0, len(signed)), is_exact=True)
    if len(signed) <= MOST_EXACT:
        return Chance(_flips_beyond(sizes, seen), _flips_beyond(sizes, most), is_exact=True)
    deviation = math.sqrt(math.fsum(size * size for size in sizes))
    p, least = (math.erfc(far / deviation / math.sqrt(2)) for far in (seen, most))
    return Chance(p, least, is_exact=False)


def _sign_test(fewer: int, count: int) -> float:
    """The probability that fair coins split at least as unevenly as `fewer` to the rest."""
    ways = total = 1
    for taken in range(fewer):
        ways = ways * (count - taken) // (taken + 1)
        total += ways
    return min(1.0, 2 * total / 2**count)


def _flips_beyond(sizes: Sequence[float], far: float) -> float:
    """The share of sign assignments whose sum is at least so far from zero."""
    half, total = len(sizes) // 2, math.fsum(sizes)
    here, there = ([each for sums in subset_sums(part) for each in sums] for part in (sizes[:half], sizes[half:]))
    there.sort()
    # The sum of the sizes with a plus, P, makes the signed sum 2 P - total.
    slack = _SLACK * (1.0 + total)
    high, low = (total + far - slack) / 2, (total - far + slack) / 2
    found = sum(bisect_right(there, low - each) + len(there) - bisect_left(there, high - each) for each in here)
    return min(1.0, found / 2 ** len(sizes))
