"""How long a server's latest answers took."""

from collections.abc import Collection

from rollouthub.statistics.quantiles import quantile

LATEST = 64
"""Answers that are looked at."""


def spread(seconds: Collection[float]) -> tuple[float, float] | None:
    """Their median and their 95th percentile, both of them seconds that an answer really took; None of none."""
    ranked = sorted(seconds)
    return (quantile(ranked, 0.5), quantile(ranked, 0.95)) if ranked else None
