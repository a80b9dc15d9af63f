"""What a model is: sampling settings, request, reply, and the protocol of models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol, runtime_checkable

from mcp_types import Tool
from pydantic import Field, JsonValue

from rollouthub.messages import Message, ReplyStream
from rollouthub.rollout import Usage
from rollouthub.settings import FILE_ONLY
from rollouthub.values import Float32s, Frozen, Int32s


class Sampling(Frozen):
    """Sampling settings of a run, a model, a seat or one request; None leaves a setting to the backend."""

    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="Sampling temperature.")
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Nucleus sampling: the share of probability to sample from."
    )
    max_tokens: int | None = Field(default=None, ge=1, description="Maximum number of output tokens of one response.")
    stop: Annotated[tuple[str, ...] | None, FILE_ONLY] = Field(
        default=None, description="Texts at which a response ends."
    )
    seed: Annotated[int | None, FILE_ONLY] = Field(
        default=None, description="The sampling's own seed, where it is not to follow the run's."
    )
    extra: Annotated[dict[str, JsonValue], FILE_ONLY] = Field(
        default={}, description="Further fields of the request body, as the backend names them."
    )

    def over(self, base: "Sampling") -> "Sampling":
        """These settings, completed by the base's where one is None; `extra` is merged field by field."""
        given = {name: value for name in Sampling.model_fields if (value := getattr(self, name)) is not None}
        return base.model_copy(update={**given, "extra": {**base.extra, **self.extra}})


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. A dataclass: two are built per rollout on the hot path, and none crosses a process."""

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    sampling: Sampling = field(default_factory=Sampling)
    timeout_seconds: float = 600.0
    session: str = ""
    """Rollout id, for prefix-cache affinity."""
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Digest → bytes of the media in the messages."""
    stream: ReplyStream | None = None
    """Receives the answer in pieces; a model that cannot stream ignores it and only returns its reply."""
    seat: str = ""
    """Name of the seat that asks."""
    adapter: str = ""
    """Name of a loaded LoRA adapter to answer with; empty for the model itself."""
    answer_schema: Mapping[str, JsonValue] | None = None
    """JSON schema of the answer's text, for a backend that can hold the model to it; others ignore it."""
    wants_text_ends: bool = False
    """Whether the reply should have `output_text_ends`: where each token ends in the text."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's answer, with token ids and logprobs if the backend returns them."""

    message: Message
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    prompt_token_ids: Int32s | None = None
    output_token_ids: Int32s | None = None
    output_logprobs: Float32s | None = None
    output_text_ends: Int32s | None = None
    """For each output token, how many characters of the message's text it and the tokens before it hold; None if
    that was not requested or is not known.
    """
    policy_version: int | None = None
    policy_versions: Int32s | None = None
    """One version per output token, if the weights changed during the answer."""
    retries: int = 0
    model: str | None = None
    """Name of the model that answered, if it is not the one that was asked; its token ids are then left out."""
    response_id: str | None = field(default=None, compare=False)
    """The server's id of the answer, if it gave one; answers are compared without it."""


@runtime_checkable
class Model(Protocol):
    """Generates responses. Stateless, shared by all episodes of a run."""

    @property
    def name(self) -> str:
        """The name that the user gave, in litellm's form: `hosted_vllm/…`, `openai/…`, `mock/…`."""
        ...

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request, within its timeout, retries included.

        Raises:
            ContextLimitError: the conversation does not fit.
            ModelError: the backend failed.
        """
        ...


@runtime_checkable
class PricedModel(Protocol):
    """A model that knows what tokens cost."""

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """US dollars; None if the price is unknown."""
        ...
