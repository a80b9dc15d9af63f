"""The run or rollout that an action applies to."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """The rollout that an action applies to."""

    rollout_id: str
    attempt: int
    place: int | None
    """Index of its record in the run's columns; None while it is in flight."""
