"""The protocols between the hub's parts: agents and the hosts of environments (for models see `generation`)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from mcp_types import CallToolResult, Tool
from pydantic import Field, JsonValue

from rollouthub.generation import Model as Model
from rollouthub.generation import ModelReply as ModelReply
from rollouthub.generation import ModelRequest as ModelRequest
from rollouthub.generation import PricedModel as PricedModel
from rollouthub.limits import Deadlines, Limits
from rollouthub.messages import Message, ToolRequest
from rollouthub.rollout import Fault, Isolation, Opening, Stop
from rollouthub.sandbox import SandboxRef
from rollouthub.score import KeptArtifact, ModelCall, SampleGroup, Score, Submission
from rollouthub.task import AuditFacts, BadRow, Public
from rollouthub.values import Frozen

# --- agents -----------------------------------------------------------------------------------------------------


class Seat(Protocol):
    """An agent's place in an episode: its tools, its conversation and the model, with every call counted and recorded.

    Every method may raise `EpisodeStop` at a limit; do not catch it.
    """

    @property
    def name(self) -> str: ...
    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation that the agent starts from."""
        ...

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools to show the model; the contract's own `get_task` and `reply` are left out."""
        ...

    @property
    def is_sealed(self) -> bool: ...
    @property
    def limits(self) -> Limits:
        """The limits in force now."""
        ...

    @property
    def turns(self) -> int:
        """Number of turns that the seat has used."""
        ...

    @property
    def has_user(self) -> bool:
        """Whether the environment replies to the agent's messages; if not, the first response without a tool call
        ends the episode.
        """
        ...

    async def generate(self, messages: Sequence[Message], tools: Sequence[Tool] | None = None) -> Message:
        """Ask the run's model to answer the conversation; this is a turn. `tools` defaults to all of the seat's."""
        ...

    def say(self, messages: Sequence[Message], response: Message) -> None:
        """Record a response that no model made (a script's, a person's); this is a turn."""
        ...

    async def call_tools(self, requests: Sequence[ToolRequest]) -> list[Message]:
        """Run tool calls concurrently; returns the `tool` messages that answer them, in order."""
        ...

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages after `messages`; None when the conversation is over."""
        ...


@runtime_checkable
class Agent(Protocol):
    """Plays episodes. One instance plays many at once and keeps no state between them."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def config(self) -> dict[str, JsonValue]:
        """The agent's configuration, as recorded."""
        ...

    async def play(self, seat: Seat) -> Stop:
        """Play until done. `Stop.CANCELLED` discards the attempt: it is recorded, and never scored."""
        ...


@runtime_checkable
class OneAnswerAgent(Protocol):
    """An agent that declares whether it asks the model once and stops, so that its calls can wait for a batch."""

    @property
    def asks_once(self) -> bool: ...


@runtime_checkable
class ModelAgent(Protocol):
    """An agent that declares whether it needs a model. Other agents play with or without one."""

    @property
    def needs_model(self) -> bool: ...


@runtime_checkable
class AttendedAgent(Protocol):
    """An agent played by a person at the terminal, whom Ctrl-C must ask what to end."""

    def interrupt(self) -> bool:
        """Handle a Ctrl-C; False if no agent plays now, so that it interrupts the run."""
        ...


DEFAULT_AGENT = "tool_loop"
"""The agent that plays if a model is named and no agent, unless the environment names another."""
REFERENCE_AGENT = "oracle"
"""The agent that plays if neither a model nor an agent is named."""
IDLE_AGENT = "null"
"""The agent of plans by which nothing is played."""


@runtime_checkable
class ReferenceAgent(Protocol):
    """An agent that plays the environment's own reference solution instead of a policy of its own."""

    async def play_reference(self, seat: Seat, reference: Sequence[Message]) -> Stop: ...


@runtime_checkable
class SampleAgent(Protocol):
    """An agent that needs the id of the rollout it plays, such as a replay of stored rollouts."""

    async def play_sample(self, seat: Seat, rollout_id: str) -> Stop: ...


@dataclass(frozen=True, slots=True)
class SeatAddress:
    """The URLs and keys with which an external agent plays a seat."""

    agent_url: str = field(repr=False)
    """The seat's MCP endpoint (Streamable HTTP); it holds the seat's token."""
    llm_url: str | None = field(repr=False)
    """Base URL of the OpenAI-compatible model API: `…/v1`. None if the run has no model."""
    api_key: str = field(repr=False)
    """The seat's token: API key of the model API, and bearer token of the MCP endpoint."""
    model: str | None
    """Name of the run's model, which answers whatever model the agent names."""
    over: Callable[[], Awaitable[None]] = field(repr=False)
    """Returns when the seat is over: the episode is sealed, or a limit is reached."""


@runtime_checkable
class ExposedAgent(Protocol):
    """An agent that plays from outside the hub over a seat's two URLs; its calls are recorded as they arrive."""

    async def play_exposed(self, seat: Seat, address: SeatAddress) -> Stop: ...


@runtime_checkable
class ListeningAgent(Protocol):
    """An external agent that is connected from the start and waits for its turns itself, with the tool `listen`."""

    async def play_listening(self, seat: Seat, address: SeatAddress) -> Stop: ...


@runtime_checkable
class HeldAgent(Protocol):
    """An agent that needs a resource for the whole run, such as a sandbox provider."""

    def held(self) -> AbstractAsyncContextManager[Agent]:
        """Open the resource; the agent that the context yields plays.

        Raises:
            UsageError: the resource cannot be opened.
        """
        ...


# --- environments -----------------------------------------------------------------------------------------------


class EnvironmentInfo(Frozen):
    """A host's description of its environment."""

    name: str
    version: str
    digest: str
    contract: int
    splits: tuple[str, ...]
    seats: tuple[str, ...]
    tools: tuple[Tool, ...]
    """The tools of all seats, each once, in order."""
    tools_digest: str
    limits: Limits
    deadlines: Deadlines = Deadlines()
    """The deadlines that its tasks need."""
    isolation: Isolation
    openings: tuple[Opening, ...] = Field(default=(), exclude=True)
    """What it may reach through the wall around it; known to the hub that built the wall."""
    scores_transcripts: bool = False
    """Whether `score` works without an episode."""
    scores_samples: bool = True
    """Whether it scores a sample by itself (`verify`); False if it only scores groups."""
    reads_turns: bool = False
    """Whether its verifier gets all turns with the submission."""
    scores_states: bool = False
    """Whether the state at the end of an episode is stored and can be scored again."""
    takes_turns: bool = False
    """Whether its seats wait for each other, see `Environment.takes_turns`."""
    scores_groups: bool = False
    """Whether it scores all samples of a task together (`score_group`)."""
    takes_media: bool = False
    """Whether it takes the bytes of media and artifacts with submissions, and gives those that it showed to judges."""
    default_agent: str = DEFAULT_AGENT
    """The agent that plays if a model is given and no agent."""
    config: dict[str, JsonValue] = {}
    """The configuration in force, defaults included."""


class TaskCard(Protocol):
    """A task as the engine sees it: its public half and a digest."""

    @property
    def public(self) -> Public: ...
    @property
    def split(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def has_reference(self) -> bool | None:
        """Whether the task has a reference solution; None if only its episode can say so."""
        ...


class AgentPlane(Protocol):
    """An episode as one seat, or an MCP client in that seat, sees it."""

    @property
    def token(self) -> str: ...
    @property
    def messages(self) -> tuple[Message, ...]: ...
    @property
    def tools(self) -> tuple[Tool, ...]: ...
    @property
    def task_tools(self) -> frozenset[str]:
        """Names of those tools that only this task has; they are not in `EnvironmentInfo.tools`."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool. Failures of the tool or the environment are error results, never exceptions."""
        ...

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None: ...


@runtime_checkable
class ServedPlane(AgentPlane, Protocol):
    """The plane of an episode that another process hosts, where other MCP clients can play the seat, too."""

    @property
    def url(self) -> str:
        """The seat's MCP endpoint at the environment's own server."""
        ...

    def note_submitted(self) -> None:
        """Note that another client of this seat has submitted the answer, which seals the episode."""
        ...


class Episode(Protocol):
    """One attempt at one task, as its host controls it."""

    @property
    def id(self) -> str: ...
    @property
    def seats(self) -> Mapping[str, AgentPlane]: ...
    @property
    def is_sealed(self) -> bool: ...
    @property
    def answer(self) -> str | None:
        """The answer given to `submit`; None if there is none."""
        ...

    @property
    def faults(self) -> Sequence[Fault]:
        """The environment's faults so far."""
        ...

    @property
    def role_calls(self) -> Sequence[ModelCall]:
        """Model calls that the environment made so far, except those of the verdict."""
        ...

    @property
    def artifacts(self) -> Sequence[KeptArtifact]:
        """The artifacts collected when the episode was sealed; known after `conclude`."""
        ...

    @property
    def missing_artifacts(self) -> Sequence[str]:
        """Reasons why artifacts are missing; not faults, because the agent decides what there is to collect."""
        ...

    @property
    def sandboxes(self) -> Sequence[SandboxRef]:
        """The sandboxes in which its programs ran so far; equal ones are listed once."""
        ...

    async def reference(self, seat: str | None = None) -> Sequence[Message]:
        """Privileged: the reference solution for a seat, by default the first; empty if there is none."""
        ...

    async def audit_facts(self) -> AuditFacts:
        """Privileged: what an audit must know of the task."""
        ...

    async def snapshot(self) -> JsonValue:
        """Privileged: the environment's state."""
        ...

    async def leave(self, seat: str) -> None:
        """Tell the environment that a seat's player is done, if `takes_turns`."""
        ...

    async def seal(self) -> None:
        """Seal the episode: revoke the seats' tokens, cancel calls in flight. Idempotent."""
        ...

    async def verify(self, submission: Submission) -> Score:
        """Seal and score; idempotent, and the score is cached.

        Raises:
            VerifierError: there is no score.
        """
        ...

    async def conclude(self, submission: Submission) -> Score | None:
        """Seal and score. None if the environment broke before (`faults` says how), or scores only groups
        (`score_group`).

        A submission without an answer is completed with the one given to `submit`. One call instead of two, because a
        remote call costs as much as a tool call.

        Raises:
            VerifierError: there is no score.
        """
        ...

    async def close(self) -> None:
        """Close the episode; idempotent.

        Raises:
            TaskError: the environment's clean-up failed.
        """
        ...


class EnvironmentHost(Protocol):
    """Controls one environment, in this process or another."""

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
        """Score a submission without an episode, if `info.scores_transcripts`; if `info.scores_groups`, that is what
        `verify` says of the one sample, and not its final score.

        Raises:
            NotOffered: the verifier needs the state of an episode.
            VerifierError: there is no score.
        """
        ...

    async def score_group(
        self, task: TaskCard, group: SampleGroup, *, seed: int, deadlines: Deadlines
    ) -> Sequence[Score]:
        """Score all members of a group together, if `info.scores_groups`: a score for each, in order.

        Its deadline is that of one verification for each member.

        Raises:
            NotOffered: the environment scores each sample by itself.
            VerifierError: there are no scores.
            SandboxError: a sandbox broke under the verifier.
        """
        ...

    def open(
        self, task: TaskCard, *, seed: int, deadlines: Deadlines, state: JsonValue = None
    ) -> AbstractAsyncContextManager[Episode]:
        """Open an episode: set up on entry, closed on exit.

        Raises:
            TaskError: setup failed or took too long.
        """
        ...
