"""Reads and validates the recipe, `recipe.toml`."""

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rollouthub.authoring.rewards import group_advantages
from rollouthub.errors import ConfigError, invalid_fields

HERE = Path(__file__).parent


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Rollouts(_Table):
    """The rollouts played for each step."""

    prompts: int = Field(ge=1)
    samples: int = Field(ge=2)
    temperature: float
    top_p: float
    max_staleness: int = Field(ge=0)


class Advantages(_Table):
    """How a sample's advantage over its problem's other samples is computed."""

    baseline: Literal["leave_one_out", "mean"]
    normalize: bool

    def of(self, rewards: Sequence[float]) -> list[float]:
        """Rewards [sample] minus their baseline; with `normalize`, divided by the spread of the compared rewards, as
        in NeMo-RL.
        """
        plain = [advantage or 0.0 for advantage in group_advantages(rewards, self.baseline)]
        if not self.normalize:
            return plain
        return [
            advantage / (spread + 1e-6) if (spread := _spread(rewards, place, self.baseline)) else advantage
            for place, advantage in enumerate(plain)
        ]


def _spread(rewards: Sequence[float], place: int, baseline: str) -> float:
    """Standard deviation (n - 1) of the rewards that a sample is compared with; 0 if there are too few."""
    others = [reward for at, reward in enumerate(rewards) if at != place or baseline == "mean"]
    if len(others) < 2:
        return 0.0
    mean = math.fsum(others) / len(others)
    return math.sqrt(math.fsum((reward - mean) ** 2 for reward in others) / (len(others) - 1))


class Training(_Table):
    """The trainer's settings for all stages."""

    global_batch: int
    micro_batch: int
    weight_decay: float
    betas: tuple[float, float]
    max_grad_norm: float
    ratio_clip_min: float
    token_level_loss: bool
    kl_form: Literal["k1", "k2", "k3"]
    warmup_steps: int = Field(ge=0)
    """Steps, not optimizer steps, over which the learning rate rises from `warmup_from` of its value: NeMo-RL's
    scheduler moves once when all of a step's rows were learnt from.
    """
    warmup_from: float
    dtype: str = "bfloat16"
    """What the passes compute in; weights and optimizer state are in 32 bits."""


class Validation(_Table):
    """The evaluations during training."""

    environment: str
    samples: int = Field(ge=1)
    every: int = Field(ge=1)


class Stage(_Table):
    """One stage, which starts from the checkpoint of the stage before."""

    name: str
    environment: str
    max_sequence_tokens: int
    steps: int = Field(ge=1)
    learning_rate: float
    kl: float
    ratio_clip_max: float


class Recipe(_Table):
    """The whole recipe."""

    policy: str
    opens_thought: bool = False
    """Whether the policy's chat template opens the thought: a setting of the environments."""
    rollouts: Rollouts
    advantages: Advantages
    training: Training
    validation: Validation
    stages: tuple[Stage, ...]

    @property
    def updates(self) -> int:
        """Optimizer steps of a step."""
        return max(1, self.rollouts.prompts * self.rollouts.samples // self.training.global_batch)

    @classmethod
    def checked(cls, values: object, what: str) -> "Recipe":
        """A recipe of these values; `what` they are begins the message of an error.

        Raises:
            ConfigError: they are no recipe.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise ConfigError(f"{what} is no recipe: {invalid_fields(error)}") from error

    @classmethod
    def read(cls, path: Path = HERE / "recipe.toml") -> "Recipe":
        """Read the recipe from a file.

        Raises:
            ConfigError: there is none, or it is not a recipe.
        """
        try:
            return cls.checked(tomllib.loads(path.read_text()), repr(str(path)))
        except OSError as error:
            raise ConfigError(f"the recipe {str(path)!r} cannot be read: {error.strerror}; name a file") from error
        except ValueError as error:
            raise ConfigError(f"{str(path)!r} is no TOML: {error}") from error
