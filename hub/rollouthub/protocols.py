"""The seams: what an agent, a model and the host of an environment must be; no side sees inside another."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, runtime_checkable

from mcp_types import CallToolResult, Tool
from pydantic import Field, JsonValue

from rollouthub.frozen import Frozen
from rollouthub.limits import Deadlines, Limits
from rollouthub.messages import Message, ReplyStream, ToolRequest
from rollouthub.packed import Float32s, Int32s
from rollouthub.rollout import Fault, Isolation, Stop, Usage
from rollouthub.sandbox import SandboxRef
from rollouthub.score import ModelCall, Score, Submission
from rollouthub.settings import FILE_ONLY
from rollouthub.task import BadRow, Public

# --- models -----------------------------------------------------------------------------------------------------


class Sampling(Frozen):
    """How to sample; None leaves it to the backend."""

    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="Sampling temperature.")
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Nucleus sampling: the share of probability to sample from."
    )
    max_tokens: int | None = Field(default=None, ge=1, description="Most output tokens of one response.")
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
        """This, and of the base what it leaves to the backend; of `extra`, field by field."""
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
    """The rollout it belongs to, for prefix-cache affinity."""
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Digest → bytes of the media the messages name."""
    stream: ReplyStream | None = None
    """Where the answer goes while it comes; a model that cannot stream leaves it alone, and its reply is all."""
    seat: str = ""
    """Who asks, among the seats of its rollout."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a model said, with token ids and logprobs where the backend gives them."""

    message: Message
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    prompt_token_ids: Int32s | None = None
    output_token_ids: Int32s | None = None
    output_logprobs: Float32s | None = None
    policy_version: int | None = None
    policy_versions: Int32s | None = None
    """One per output token, where weights changed in mid-answer."""
    retries: int = 0
    model: str | None = None
    """Who answered, where that is not the model that was asked; its tokens are left out then."""


@runtime_checkable
class Model(Protocol):
    """Who generates. Stateless, shared by all episodes of a run."""

    @property
    def name(self) -> str:
        """As the user named it, in litellm's words: `hosted_vllm/…`, `openai/…`, `mock/…`."""
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
        """US dollars; None where no price is known."""
        ...


# --- agents -----------------------------------------------------------------------------------------------------


class Seat(Protocol):
    """An agent's place in an episode: the agent plane and the model seam, metered and recorded.

    Every method may raise `EpisodeStop` when a limit is reached; let it pass.
    """

    @property
    def name(self) -> str: ...
    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation to start from."""
        ...

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools to show a model; the contract's own `get_task` and `reply` are left out."""
        ...

    @property
    def is_sealed(self) -> bool: ...
    @property
    def limits(self) -> Limits:
        """Those in force now."""
        ...

    @property
    def turns(self) -> int:
        """How many of the seat's turns are used."""
        ...

    @property
    def has_user(self) -> bool:
        """Whether somebody answers to words; else the first words without a tool call end the episode."""
        ...

    async def generate(self, messages: Sequence[Message], tools: Sequence[Tool] | None = None) -> Message:
        """Ask the run's model to answer the conversation; a turn. `tools` defaults to all of the seat's."""
        ...

    def say(self, messages: Sequence[Message], response: Message) -> None:
        """Record a response no model made (a script's, a person's); a turn."""
        ...

    async def call_tools(self, requests: Sequence[ToolRequest]) -> list[Message]:
        """Run tool calls concurrently; the `tool` messages that answer them, in order."""
        ...

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages after `messages`; None when the conversation is over."""
        ...


@runtime_checkable
class Agent(Protocol):
    """Who acts. One instance plays many episodes at once and keeps no state between them."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def config(self) -> dict[str, JsonValue]:
        """What to record of its configuration."""
        ...

    async def play(self, seat: Seat) -> Stop:
        """Act until done. `Stop.CANCELLED` discards the attempt: it is recorded, and never scored."""
        ...


@runtime_checkable
class ModelAgent(Protocol):
    """An agent that says whether it can play without a model. One that says nothing plays either way."""

    @property
    def needs_model(self) -> bool: ...


@runtime_checkable
class AttendedAgent(Protocol):
    """An agent whose player sits at the terminal, and is asked what a Ctrl-C is to mean."""

    def interrupt(self) -> bool:
        """Ctrl-C was pressed; False where nobody plays now, so that it means the run."""
        ...


REFERENCE_AGENT = "oracle"
"""Who plays where neither a model nor an agent is named."""


@runtime_checkable
class ReferenceAgent(Protocol):
    """An agent that plays the environment's own reference solution instead of a policy of its own."""

    async def play_reference(self, seat: Seat, reference: Sequence[Message]) -> Stop: ...


@runtime_checkable
class SampleAgent(Protocol):
    """An agent that must know which sample of which task it plays, such as a replay of a stored one."""

    async def play_sample(self, seat: Seat, rollout_id: str) -> Stop: ...


@dataclass(frozen=True, slots=True)
class SeatAddress:
    """Two URLs, which are all that somebody else's agent needs to play a seat."""

    agent_url: str = field(repr=False)
    """The seat's MCP endpoint (Streamable HTTP); it holds the seat's token."""
    llm_url: str | None = field(repr=False)
    """Base of the model seam, as OpenAI clients take it: `…/v1`. None where the run has no model."""
    api_key: str = field(repr=False)
    """The seat's token: the key of the model seam, and `Bearer` of the agent plane."""
    model: str | None
    """The run's model. Whatever an agent asks for, this one answers."""
    over: Callable[[], Awaitable[None]] = field(repr=False)
    """Returns once there is nothing more to do here: the episode is sealed, or a limit was reached."""


@runtime_checkable
class ExposedAgent(Protocol):
    """An agent that plays from outside, over a seat's two URLs; its calls are recorded where they come in."""

    async def play_exposed(self, seat: Seat, address: SeatAddress) -> Stop: ...


@runtime_checkable
class HeldAgent(Protocol):
    """An agent that needs something for as long as a run lasts, such as a sandbox provider."""

    def held(self) -> AbstractAsyncContextManager[Agent]:
        """Get ready; what is yielded plays.

        Raises:
            UsageError: what it needs cannot be had.
        """
        ...


# --- environments -----------------------------------------------------------------------------------------------


class EnvironmentInfo(Frozen):
    """What a host says of its environment."""

    name: str
    version: str
    digest: str
    contract: int
    splits: tuple[str, ...]
    seats: tuple[str, ...]
    tools: tuple[Tool, ...]
    """The union of all seats' tools, in order."""
    tools_digest: str
    limits: Limits
    deadlines: Deadlines = Deadlines()
    """What its tasks need."""
    isolation: Isolation
    scores_transcripts: bool = False
    """Whether `score` can do without an episode."""
    default_agent: str = "tool_loop"
    """Who acts where a model is given and no agent."""
    config: dict[str, JsonValue] = {}
    """The configuration in force, defaults included."""


class TaskCard(Protocol):
    """A task as the engine holds it: its public half and a digest."""

    @property
    def public(self) -> Public: ...
    @property
    def split(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def has_reference(self) -> bool | None:
        """Whether there is a reference solution of it; None where only an episode can tell."""
        ...


class AgentPlane(Protocol):
    """One seat's side of an episode: what an MCP client sees."""

    @property
    def token(self) -> str: ...
    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...
    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Never raises for what the tool or the environment did; the result says it."""
        ...

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None: ...


class Episode(Protocol):
    """One attempt at one task, seen from the control plane."""

    @property
    def id(self) -> str: ...
    @property
    def seats(self) -> Mapping[str, AgentPlane]: ...
    @property
    def is_sealed(self) -> bool: ...
    @property
    def answer(self) -> str | None:
        """What was given to `submit`."""
        ...

    @property
    def faults(self) -> Sequence[Fault]:
        """The environment's faults so far."""
        ...

    @property
    def role_calls(self) -> Sequence[ModelCall]:
        """Calls of models the environment made itself, those of the verdict left out."""
        ...

    @property
    def sandboxes(self) -> Sequence[SandboxRef]:
        """Where its programs ran so far, equal ones once."""
        ...

    async def reference(self) -> Sequence[Message]:
        """Privileged: the reference solution; empty where there is none."""
        ...

    async def snapshot(self) -> JsonValue:
        """Privileged: the world's state."""
        ...

    async def seal(self) -> None:
        """Latch: revoke the tokens, cancel calls in flight. Idempotent."""
        ...

    async def verify(self, submission: Submission) -> Score:
        """Seal and score; idempotent and cached.

        Raises:
            VerifierError: there is no score.
        """
        ...

    async def conclude(self, submission: Submission) -> Score | None:
        """Seal, and score unless the environment broke before: None then, and `faults` says why.

        A submission without an answer is completed with the one given to `submit`. One call, because on a wire each
        costs as much as a tool call.

        Raises:
            VerifierError: there is no score.
        """
        ...

    async def close(self) -> None:
        """Tear down; idempotent.

        Raises:
            TaskError: the environment's clean-up failed.
        """
        ...


class EnvironmentHost(Protocol):
    """The control plane of one environment: in this process, or elsewhere."""

    @property
    def info(self) -> EnvironmentInfo: ...
    def tasks(self, split: str, seed: int) -> AsyncIterator[TaskCard | BadRow]: ...
    async def find_task(self, split: str, task_id: str, seed: int) -> TaskCard:
        """The card of one task.

        Raises:
            UnknownNameError: there is no such split or task.
        """
        ...

    async def score(self, task: TaskCard, submission: Submission, *, seed: int, deadlines: Deadlines) -> Score:
        """Score a submission without an episode, where `info.scores_transcripts`.

        Raises:
            NotOffered: the verifier needs the world an episode leaves behind.
            VerifierError: there is no score.
        """
        ...

    def open(
        self, task: TaskCard, *, seed: int, deadlines: Deadlines, state: JsonValue = None
    ) -> AbstractAsyncContextManager[Episode]:
        """Open an episode: set up, and closed on the way out.

        Raises:
            TaskError: setup failed or took too long.
        """
        ...
