"""What an action is meant for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """The rollout that an action is meant for."""

    rollout_id: str
    attempt: int
    place: int | None
    """Where its record is in the run's columns; None while it is in flight."""
