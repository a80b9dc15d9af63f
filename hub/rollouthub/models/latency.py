"""How long a server's latest answers took."""

import math
from collections.abc import Collection

LATEST = 64
"""Answers that are looked at."""


def spread(seconds: Collection[float]) -> tuple[float, float] | None:
    """Their median and their 95th percentile, both of them seconds that an answer really took; None of none."""
    if not seconds:
        return None
    ordered = sorted(seconds)
    return _rank(ordered, 0.5), _rank(ordered, 0.95)


def _rank(ordered: list[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1]
