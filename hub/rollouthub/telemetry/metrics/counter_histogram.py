"""A histogram that is cheap to update, and can be serialised and summed."""

from bisect import bisect_left

import msgspec

STAGE_BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
    *(2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0, 3600.0),
)
"""Bucket bounds in seconds, from a millisecond to an hour, a factor of 2 to 3 apart, which bounds the error of a
quantile.
"""
LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bucket bounds in seconds for the delay of an event loop."""


class Histogram(msgspec.Struct):
    """Counts of observations by size. It is a struct, because several are updated for every rollout, and workers
    send theirs.
    """

    bounds: tuple[float, ...]
    """Upper bounds of the buckets; larger values are counted in one further bucket."""
    counts: list[int]
    total: float = 0.0
    """Sum of all observed values."""

    @property
    def count(self) -> int:
        """The number of values observed."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """Count an observed value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: "Histogram") -> None:
        """Add the counts of another histogram with the same bounds."""
        assert self.bounds == other.bounds
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


def empty(bounds: tuple[float, ...] = STAGE_BOUNDS) -> Histogram:
    """A histogram without observations."""
    return Histogram(bounds, [0] * (len(bounds) + 1))
