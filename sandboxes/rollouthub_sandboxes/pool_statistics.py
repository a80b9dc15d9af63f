"""Statistics of a warm pool: what it has done so far, and what it holds now."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """Counts of a warm pool, for logs and benchmarks."""

    acquired: int
    from_warm: int
    """Acquired without waiting."""
    waited: int
    """Acquired after a wait."""
    made: int
    failed: int
    """Starts that failed."""
    discarded: int
    """Died while they were warm."""
    seconds_to_make: float
    """Mean seconds that a start took."""
    live: int
    warm: int
    making: int
    ending: int
