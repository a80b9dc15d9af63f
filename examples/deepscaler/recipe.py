"""The recipe: `recipe.toml`, read and checked."""

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from rollouthub.authoring.rewards import group_advantages

HERE = Path(__file__).parent


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rollouts(_Table):
    """What is played for each step."""

    prompts: int = Field(ge=1)
    samples: int = Field(ge=2)
    temperature: float
    top_p: float
    max_staleness: int = Field(ge=0)


class Advantages(_Table):
    """How much better a sample did than the others of its problem."""

    baseline: Literal["leave_one_out", "mean"]
    normalize: bool

    def of(self, rewards: Sequence[float]) -> list[float]:
        """Rewards [sample] less their baseline; divided by the spread of the others, as NeMo-RL does."""
        plain = [advantage or 0.0 for advantage in group_advantages(rewards, self.baseline)]
        if not self.normalize:
            return plain
        return [
            advantage / (spread + 1e-6) if (spread := _spread(rewards, place, self.baseline)) else advantage
            for place, advantage in enumerate(plain)
        ]


def _spread(rewards: Sequence[float], place: int, baseline: str) -> float:
    """Standard deviation (n - 1) of the rewards that a sample is measured against; 0 where there is none."""
    others = [reward for at, reward in enumerate(rewards) if at != place or baseline == "mean"]
    if len(others) < 2:
        return 0.0
    mean = math.fsum(others) / len(others)
    return math.sqrt(math.fsum((reward - mean) ** 2 for reward in others) / (len(others) - 1))


class Training(_Table):
    """What the trainer is to do in every stage."""

    global_batch: int
    micro_batch: int
    weight_decay: float
    betas: tuple[float, float]
    max_grad_norm: float
    ratio_clip_min: float
    token_level_loss: bool


class Validation(_Table):
    """What is measured on the way."""

    environment: str
    samples: int = Field(ge=1)
    every: int = Field(ge=1)


class Stage(_Table):
    """One stage, which goes on from the checkpoint of the one before."""

    name: str
    environment: str
    max_sequence_tokens: int
    steps: int = Field(ge=1)
    learning_rate: float
    kl: float
    ratio_clip_max: float


class Recipe(_Table):
    """All of it."""

    policy: str
    rollouts: Rollouts
    advantages: Advantages
    training: Training
    validation: Validation
    stages: tuple[Stage, ...]

    @classmethod
    def read(cls, path: Path = HERE / "recipe.toml") -> "Recipe":
        """The recipe of a file."""
        return cls.model_validate(tomllib.loads(path.read_text()))
