"""What a verifier is given of a sealed episode, and what it says of it."""

from math import isclose, prod
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from rollouthub.frozen import Frozen
from rollouthub.messages import Message

FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]


class Component(Frozen):
    """One part of a composite reward."""

    value: FiniteFloat
    weight: FiniteFloat = 1.0


def _component(value: Any) -> Any:
    """A bare number stands for a component of weight 1."""
    return {"value": value} if isinstance(value, int | float) else value


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
    suspect: str | None = None
    """Why the reward is not to be trusted, such as that it hangs on a tool the agent replaced; it is then the lower one
    that counts, and nothing is learnt from it unless that is asked for. None where nothing speaks against it."""
    components: dict[
        str, Annotated[Component, BeforeValidator(_component, json_schema_input_type=Component | float)]
    ] = Field(default_factory=dict)
    """The parts of the reward by name; a bare number is a part of weight 1. They must add up to the reward."""
    combine: Literal["sum", "product"] = "sum"
    """How the components make the reward: sum of value × weight, or product of the values whose weight is not 0."""
    metrics: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Figures by name that are recorded and count for nothing."""
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
    def _components_make_the_reward(self) -> "Score":
        if self.components:
            parts = self.components.values()
            if self.combine == "sum":
                total = sum(part.value * part.weight for part in parts)
            else:
                total = prod(part.value for part in parts if part.weight)
            if not isclose(total, self.reward, rel_tol=1e-6, abs_tol=1e-6):
                comes = "add up" if self.combine == "sum" else "multiply"
                says = f"components {', '.join(self.components)} {comes} to {total:g}, but reward is {self.reward:g}"
                raise ValueError(f"{says}; figures that are no parts of it belong into metrics")
        return self


class Artifact(Frozen):
    """A file collected when the episode was sealed; its bytes live once in the run's `media/`."""

    name: str
    digest: str
    bytes: int


class Submission(Frozen):
    """What the agent left: its answer if it submitted one, and what it said."""

    answer: str | None = None
    """The text given to the `submit` tool."""
    transcript: tuple[Message, ...] = ()
    """The conversation of the (first) seat, where the hub saw it."""
    artifacts: tuple[Artifact, ...] = ()
    stop: str | None = None

    @property
    def final(self) -> str:
        """The submitted answer, or else the last thing the agent said."""
        if self.answer is not None:
            return self.answer
        for message in reversed(self.transcript):
            if message.role == "assistant":
                return message.text
        return ""
