"""The result of a step's tests."""

from dataclasses import dataclass

from rollouthub_servers.terminal.planted_files import NOTHING, Planted
from rollouthub_servers.terminal.reward import Rewards


@dataclass(frozen=True)
class Grade:
    """The result of a step's tests."""

    rewards: Rewards
    said: str
    """The end of the tests' output."""
    planted: Planted = NOTHING
    crossed: str = "snapshot"
    files: int = 0
    """Number of artifacts that were copied."""
    suspect: str | None = None
    """Why the reward is marked as suspect; None if it is not."""
    refused: tuple[str, ...] = ()
    """Hosts that the tests could not reach without a network."""
