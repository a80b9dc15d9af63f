"""What a verifier says of a sealed episode."""

from math import isclose
from typing import Annotated

from pydantic import Field, JsonValue, model_validator

from envhub.frozen import Frozen
from envhub.messages import Message

FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]


class Component(Frozen):
    """One part of a composite reward."""

    value: FiniteFloat
    weight: FiniteFloat = 1.0


class VerifierRef(Frozen):
    """Which verifier made a score."""

    name: str
    version: str
    digest: str


class ModelCall(Frozen):
    """One call of a model that an environment made itself (a judge, a simulated user), in full."""

    role: str = "judge"
    """The name under which the environment asked for it."""
    model: str
    messages: tuple[Message, ...]
    response: Message | None
    """None where the call failed."""
    error: str | None = None
    """Why it failed."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost: FiniteFloat | None = None
    """US dollars."""
    seconds: FiniteFloat = 0.0


class Score(Frozen):
    """A verifier's verdict. NaN, infinity and absence are refused: they are verifier faults, never 0."""

    reward: FiniteFloat
    passed: bool | None = None
    """Whether the task counts as solved; None where the verifier draws no such line."""
    components: dict[str, Component] = Field(default_factory=dict)
    metrics: dict[str, FiniteFloat] = Field(default_factory=dict)
    feedback: str | None = None
    """For people and logs; the agent never sees it."""
    turn_rewards: dict[int, FiniteFloat] = Field(default_factory=dict[int, float])
    """Turn index → reward of that turn, where the verifier gives one."""
    verifier: VerifierRef | None = None
    """Filled in by the host."""
    judge_calls: tuple[ModelCall, ...] = ()
    """Calls made while verifying; filled in by the host where the verifier does not."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _components_add_up(self) -> "Score":
        if self.components:
            total = sum(part.value * part.weight for part in self.components.values())
            if not isclose(total, self.reward, rel_tol=1e-6, abs_tol=1e-6):
                raise ValueError(f"components add up to {total}, but reward is {self.reward}")
        return self
