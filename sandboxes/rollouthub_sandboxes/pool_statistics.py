"""What a warm pool has done so far, and what it holds now."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """For logs and benchmarks."""

    acquired: int
    from_warm: int
    """Handed out at once."""
    waited: int
    """Handed out after a wait."""
    made: int
    failed: int
    """Could not be made."""
    discarded: int
    """Died while they were warm."""
    seconds_to_make: float
    """Mean."""
    live: int
    warm: int
    making: int
    ending: int
