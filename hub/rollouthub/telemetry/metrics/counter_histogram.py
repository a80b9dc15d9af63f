"""A histogram that is cheap to add to, and can be sent and summed."""

from bisect import bisect_left

import msgspec

STAGE_BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0),
    *(2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0, 3600.0),
)
"""Seconds, from a mock's answer to an hour of work, a factor of 2 to 2.5 apart: so far off can a quantile be."""
LAG_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds that an event loop is late."""


class Histogram(msgspec.Struct):
    """Counts of observations by size. A struct: several are added to for every rollout, and workers send theirs."""

    bounds: tuple[float, ...]
    """Upper bounds; what is over the last goes into one count more."""
    counts: list[int]
    total: float = 0.0
    """Of everything observed."""

    @property
    def count(self) -> int:
        """How many were observed."""
        return sum(self.counts)

    def observe(self, value: float) -> None:
        """Count an observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: "Histogram") -> None:
        """Count another one's observations, too."""
        assert self.bounds == other.bounds
        self.counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total


def empty(bounds: tuple[float, ...] = STAGE_BOUNDS) -> Histogram:
    """A histogram of nothing yet."""
    return Histogram(bounds, [0] * (len(bounds) + 1))
