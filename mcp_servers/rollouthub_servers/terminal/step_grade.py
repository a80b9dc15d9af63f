"""The container state that a step's tests run on, and their result."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.sandbox import File, Snapshot
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
    seconds: float = 0.0
    suspect: str | None = None
    """Why the reward is marked as suspect; None if it is not."""
    refused: tuple[str, ...] = ()
    """Hosts that the tests could not reach without a network."""


@dataclass(frozen=True)
class GradingContext:
    """The agent's work on which the tests of a step are run."""

    snapshot: Snapshot | None = None
    artifacts: Sequence[File] = ()

    @property
    def crossed(self) -> str:
        """How the agent's work was copied: `artifacts` or `snapshot`."""
        return "artifacts" if self.snapshot is None else "snapshot"
