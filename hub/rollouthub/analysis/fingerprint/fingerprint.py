"""`Fingerprint`: what an environment has, and what its reference, an idle agent and a run earn on it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from rollouthub.analysis.fingerprint.played import PlayedShare
from rollouthub.hosting.local.toolbox import GET_TASK, LISTEN, REPLY
from rollouthub.protocols import EnvironmentInfo

_CONTRACT = (GET_TASK, REPLY, LISTEN)
"""Tools of the contract between hub and agent, which every environment has."""


@dataclass(frozen=True)
class PlayedSample:
    """What one of the hub's own agents earned on a sample of the tasks, without a model."""

    agent: str
    played: PlayedShare | None
    """None where it could not play."""
    cpu_seconds: float | None
    """CPU seconds an episode, of all processes of this machine that took part; the start of the environment counts."""
    why: str | None = None
    """Why it could not play, such as that tasks have no reference."""

    def as_json(self) -> dict[str, Any]:
        """All of it, flat."""
        played = {} if self.played is None else self.played.as_json()
        return {**played, "cpu_seconds": self.cpu_seconds, "why": self.why}


@dataclass(frozen=True)
class Fingerprint:
    """What is known of one environment."""

    name: str
    version: str
    split: str
    tasks: int
    """Number of tasks of the split, of those that the settings choose."""
    splits: tuple[str, ...]
    seats: tuple[str, ...]
    tools: tuple[str, ...]
    """Names of its tools, `submit` included; of those that single tasks bring, the ones that a run shows."""
    default_agent: str
    samples: dict[str, PlayedSample] = field(default_factory=dict[str, PlayedSample])
    """Agent (`oracle`, `null`) → what it earned."""
    run: PlayedShare | None = None
    """What a run earned; None without one."""

    @classmethod
    def of(cls, info: EnvironmentInfo, split: str, tasks: int) -> "Fingerprint":
        """What a host says of its environment."""
        names = tuple(tool.name for tool in info.tools if tool.name not in _CONTRACT)
        return cls(info.name, info.version, split, tasks, info.splits, info.seats, names, info.default_agent)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        samples = {agent: sample.as_json() for agent, sample in self.samples.items()}
        own = {key: value for key, value in asdict(self).items() if key not in ("samples", "run")}
        return {**own, **samples, "run": None if self.run is None else self.run.as_json()}
