"""The container state that a step's tests run on, and their result."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.sandbox import File, Snapshot
from rollouthub_servers.terminal.planted_files import NOTHING, Planted
from rollouthub_servers.terminal.reward import Rewards


@dataclass(frozen=True)
class Grade:
    """What the tests of a step said."""

    rewards: Rewards
    said: str
    """The end of their output."""
    planted: Planted = NOTHING
    crossed: str = "snapshot"
    files: int = 0
    """Artifacts that crossed."""
    seconds: float = 0.0
    suspect: str | None = None
    """Why its reward is not to be trusted; it is then the lower of two."""
    refused: tuple[str, ...] = ()
    """Hosts that the tests could not reach for want of a network."""


@dataclass(frozen=True)
class GradingContext:
    """What the tests of a step are run on."""

    snapshot: Snapshot | None = None
    artifacts: Sequence[File] = ()

    @property
    def crossed(self) -> str:
        """How the agent's work came into it."""
        return "artifacts" if self.snapshot is None else "snapshot"
