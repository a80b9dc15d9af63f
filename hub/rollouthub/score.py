"""What a verifier gets of a sealed episode, and the score it returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, prod
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, PrivateAttr, model_validator

from rollouthub.errors import VerifierError
from rollouthub.messages import Message, digest_of
from rollouthub.values import Frozen

_Content = bytes  # in a class that has a field `bytes`

_CHECKED_AGAIN = ConfigDict(revalidate_instances="always")
"""Parts of a score are validated again, because an author's `model_copy` and `model_construct` let NaN through."""

FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]


class Component(Frozen):
    """One part of a composite reward."""

    model_config = _CHECKED_AGAIN

    value: FiniteFloat
    weight: FiniteFloat = 1.0


def _component(value: Any) -> Any:
    """Read a bare number as a component of weight 1."""
    return {"value": value} if isinstance(value, int | float) else value


class VerifierRef(Frozen):
    """The verifier that made a score."""

    name: str
    version: str
    digest: str


class ModelCall(Frozen):
    """One model call that an environment made itself (a judge, a simulated user), in full."""

    role: str = "judge"
    """The role under which the environment asked for the model."""
    model: str
    messages: tuple[Message, ...]
    response: Message | None
    """The answer; None if the call failed."""
    error: str | None = None
    """Why the call failed; None if it did not."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost: FiniteFloat | None = None
    """US dollars."""
    seconds: FiniteFloat = 0.0


class SpanReward(Frozen):
    """The reward of a span of a turn's response, such as a step of a solution scored by a process reward model."""

    model_config = _CHECKED_AGAIN

    turn: int
    """The turn's index."""
    start: Annotated[int, Field(ge=0)]
    """Index of the span's first token or character."""
    end: Annotated[int, Field(ge=1)]
    """Index after the span's last token or character; training puts the reward on the last token."""
    reward: FiniteFloat
    unit: Literal["token", "character"] = "token"
    """What `start` and `end` count: the turn's output tokens, or the characters of its response's text.

    The hub replaces a span of characters by one of tokens where it knows which tokens hold them; otherwise the record
    keeps the characters.
    """

    @model_validator(mode="after")
    def _spans_something(self) -> "SpanReward":
        if self.end <= self.start:
            raise ValueError(f"a span of turn {self.turn} begins at {self.unit} {self.start} and ends at {self.end}")
        return self


class Score(Frozen):
    """A verifier's verdict. A missing, NaN or infinite reward is refused: it is a verifier fault, never 0."""

    reward: FiniteFloat
    passed: bool | None = None
    """Whether the task counts as solved; None if the verifier sets no pass mark."""
    suspect: str | None = None
    """Why the reward may be wrong, for example because it depends on a tool that the agent replaced; None if nothing
    speaks against it. `reward` is then the lowest plausible one, and the rollout is not trainable unless the user asks
    for it.
    """
    components: dict[
        str, Annotated[Component, BeforeValidator(_component, json_schema_input_type=Component | float)]
    ] = Field(default_factory=dict)
    """The parts of the reward by name; a bare number is a part of weight 1. They must combine to the reward."""
    combine: Literal["sum", "product"] = "sum"
    """How the components make the reward: sum of value × weight, or product of the values whose weight is not 0."""
    metrics: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Figures by name that are recorded and do not affect the reward."""
    feedback: str | None = None
    """Text for people and logs; the agent never sees it."""
    turn_rewards: dict[int, FiniteFloat] = Field(default_factory=dict[int, float])
    """Turn index → reward of that turn, if the verifier gives one; separate from `reward`, not part of it."""
    span_rewards: tuple[SpanReward, ...] = ()
    """Rewards of spans within turns, of tokens or of characters; also separate from `reward`."""
    seat_rewards: dict[str, FiniteFloat] = Field(default_factory=dict[str, float])
    """Seat → reward of that seat. Used instead of `reward` (the team's) if one seat is trained or compared."""
    verifier: VerifierRef | None = None
    """The verifier; set by the host."""
    judge_calls: tuple[ModelCall, ...] = ()
    """Model calls made while verifying; set by the host if the verifier does not."""
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
    """A file collected when the episode was sealed; its bytes are stored once in the run's `media/`.

    As a verifier gets it, it also has its content, which is never serialised and makes no difference between equals.
    """

    name: str
    digest: str
    bytes: int
    _content: _Content | None = PrivateAttr(default=None)

    def read(self) -> _Content | None:
        """Its bytes; None if it has only a digest."""
        return self._content

    def holding(self, content: _Content) -> "Artifact":
        """A copy with its bytes; the caller guarantees that they match the digest."""
        artifact = self.model_copy()
        artifact._content = content
        return artifact

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Artifact):
            return NotImplemented
        return (self.name, self.digest, self.bytes) == (other.name, other.digest, other.bytes)

    def __hash__(self) -> int:
        return hash((self.name, self.digest, self.bytes))


STATE = "state.json"
"""Name of the artifact that holds the environment's state, if it `scores_states`."""
UNKEEPABLE = "what its agent left cannot be kept"
"""Beginning of the reason why artifacts are missing because of files the agent left, such as a pipe or too many
bytes.
"""


@dataclass(frozen=True, slots=True)
class KeptArtifact:
    """An artifact with its bytes, until they are stored."""

    ref: Artifact
    data: bytes

    @classmethod
    def of(cls, name: str, data: bytes) -> "KeptArtifact":
        """The artifact of these bytes."""
        return cls(Artifact(name=name, digest=digest_of(data), bytes=len(data)), data)


@dataclass(frozen=True, slots=True)
class CollectedArtifacts:
    """What was collected when an episode was sealed."""

    kept: Sequence[KeptArtifact] = ()
    missing: Sequence[str] = ()
    """Reasons why artifacts are missing; those that are the agent's doing begin with `UNKEEPABLE`."""


class SubmittedTurn(Frozen):
    """One turn in the form that a verifier gets."""

    index: int
    """The index that `turn_rewards` and `span_rewards` use."""
    seat: str
    messages: tuple[Message, ...]
    """The messages added to the seat's conversation before the response."""
    response: Message
    output_tokens: int | None = None
    """Number of sampled tokens; None if the engine gave no token ids."""


class Submission(Frozen):
    """What the agent produced: its answer, if it submitted one, and its conversation."""

    answer: str | None = None
    """The text given to the `submit` tool."""
    transcript: tuple[Message, ...] = ()
    """The conversation of the first seat, if the hub saw it."""
    turns: tuple[SubmittedTurn, ...] = ()
    """All turns of all seats, in the order they ended: given if there are several seats, or the environment
    `reads_turns`.
    """
    artifacts: tuple[Artifact, ...] = ()
    stop: str | None = None

    def artifact_bytes(self, name: str) -> bytes | None:
        """The bytes of a collected file; None if nothing of this name was collected.

        Raises:
            VerifierError: it was collected, and its bytes are not at hand, such as in an old run whose file is gone.
        """
        found = next((artifact for artifact in self.artifacts if artifact.name == name), None)
        if found is None:
            return None
        content = found.read()
        if content is None:
            raise VerifierError(f"the bytes of the artifact {name!r} ({found.digest}) are not at hand", retryable=False)
        return content

    @property
    def final(self) -> str:
        """The submitted answer, else the agent's last response."""
        if self.answer is not None:
            return self.answer
        for message in reversed(self.transcript):
            if message.role == "assistant":
                return message.text
        return ""


class GroupMember(Frozen):
    """One sample of a group, in the form that the group's verifier gets."""

    sample: int
    submission: Submission
    score: Score | None = None
    """The score that `verify` gave it; None if the environment scores only groups."""


class LostMember(Frozen):
    """A sample of a group that cannot be judged: its agent failed or broke its own environment, or infrastructure
    broke.
    """

    sample: int
    outcome: str
    reason: str | None = None


class SampleGroup(Frozen):
    """All samples of one task, for a verdict on them together."""

    members: tuple[GroupMember, ...]
    """The samples to be scored, in order of `sample`."""
    lost: tuple[LostMember, ...] = ()
    """The samples that are not scored with the group, in order of `sample`. Scores that they have stay."""
