"""Latencies of a server's latest answers."""

from collections.abc import Collection

from rollouthub.statistics.quantiles import quantile

LATEST = 64
"""How many latest answers are considered."""


def spread(seconds: Collection[float]) -> tuple[float, float] | None:
    """The median and the 95th percentile in seconds, both of them measured values; None without any."""
    ranked = sorted(seconds)
    return (quantile(ranked, 0.5), quantile(ranked, 0.95)) if ranked else None
