"""The record of an episode, complete enough to justify its score and to train on.

Calls are recorded; training sequences are derived (`segment.py`). A record can be read without the environment's
package.
"""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Literal

from mcp_types import CallToolResult, Tool
from pydantic import Field, JsonValue

from rollouthub.limits import Limits
from rollouthub.messages import Message
from rollouthub.sandbox import SandboxRef
from rollouthub.score import Artifact, FiniteFloat, ModelCall, Score, Submission, SubmittedTurn
from rollouthub.values import Float32s, Frozen, Int32s

SCHEMA_VERSION = 1

UNKEPT = "unkeepable_artifacts"
"""The gap of a rollout whose artifacts are missing because of files that its agent left."""
ONLY_SEAT = "agent"
"""The name of the seat of an environment that names none."""
SUSPECT = "its score is suspect: "
"""Beginning of `trainable_reason` of a rollout with a suspect score."""


class Outcome(StrEnum):
    """How an episode ended: scored, or the boundary that broke. Only `scored` has a reward."""

    SCORED = "scored"
    AGENT_FAILED = "agent_failed"
    MODEL_FAILED = "model_failed"
    ENVIRONMENT_FAILED = "environment_failed"
    SANDBOX_FAILED = "sandbox_failed"
    VERIFIER_FAILED = "verifier_failed"
    CANCELLED = "cancelled"

    @property
    def kind(self) -> "OutcomeKind":
        """The kind of outcome. Means, exit codes and screens treat the kinds separately."""
        return _KINDS[self]


OutcomeKind = Literal["scored", "agent_failure", "infrastructure_fault", "verifier_fault", "cancelled"]

_KINDS: dict[Outcome, OutcomeKind] = {
    Outcome.SCORED: "scored",
    Outcome.AGENT_FAILED: "agent_failure",
    Outcome.MODEL_FAILED: "infrastructure_fault",
    Outcome.ENVIRONMENT_FAILED: "infrastructure_fault",
    Outcome.SANDBOX_FAILED: "infrastructure_fault",
    Outcome.VERIFIER_FAILED: "verifier_fault",
    Outcome.CANCELLED: "cancelled",
}


class Stop(StrEnum):
    """Why the agent stopped. At a limit the agent stops, and the episode is still scored."""

    FINISHED = "finished"
    SUBMITTED = "submitted"
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    COST_LIMIT = "cost_limit"
    CONTEXT_LIMIT = "context_limit"
    INTERRUPTED = "interrupted"
    """A person ended the agent phase; what the agent had done by then is scored."""
    CANCELLED = "cancelled"
    FAILED = "failed"
    """A boundary broke before the agent was done; the outcome says which."""


Phase = Literal["setup", "agent", "verify", "close"]
TokenSource = Literal["engine", "none"]


class Fault(Frozen):
    """An error of an episode, with the boundary that broke and the phase."""

    boundary: Literal["agent", "model", "environment", "sandbox", "verifier", "hub"]
    phase: Phase
    type: str
    """The exception's class name."""
    message: str
    retryable: bool = False
    status: int | None = None
    """The HTTP status, if there was one."""


class ToolCall(Frozen):
    """One tool call as it ran."""

    id: str
    name: str
    arguments: JsonValue
    """The parsed arguments, or the model's text if it is no JSON object."""
    result: CallToolResult
    """The result that the agent got; the `data` of an image or sound is replaced by its digest, its bytes are in
    `media/`.
    """
    started: FiniteFloat
    """Seconds since the rollout started."""
    seconds: FiniteFloat
    bytes: int
    """Size of the result's content in bytes."""

    @property
    def is_error(self) -> bool:
        """Whether the result reported an error to the model."""
        return self.result.is_error


class Usage(Frozen):
    """Token counts as the backend reported them."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


BROKEN_OFF = "broken_off"
"""Finish reason of a response whose end was not received: the agent or the model's server disconnected. The part that
was passed on is recorded; its tokens and cost are an estimate.
"""


class Turn(Frozen):
    """One response of an agent's model (or of a script or a person), with its tool calls."""

    index: int
    parent_turn: int | None = None
    """Index of the turn whose conversation this one extends; None starts a new conversation."""
    agent: str = ONLY_SEAT
    """Name of the seat that made the turn."""
    messages: tuple[Message, ...]
    """The messages added to the parent's conversation before this response."""
    response: Message
    tools: tuple[str, ...] | None = None
    """The tools the model was shown: names, or keys of `other_tools`.

    None if no model was asked, and in records made before this field existed.
    """
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage = Usage()
    cost: FiniteFloat | None = None
    """US dollars; None if the price is unknown."""
    model: str | None = None
    """Name of the model that answered, if it was not the run's own but a fallback."""
    sampling: dict[str, JsonValue] = {}
    started: FiniteFloat = 0.0
    """Seconds since the rollout started."""
    seconds: FiniteFloat = 0.0
    retries: int = 0
    """Number of failed tries of the model call before this answer."""
    prompt_token_ids: Int32s | None = None
    output_token_ids: Int32s | None = None
    output_logprobs: Float32s | None = None
    output_text_ends: Int32s | None = None
    """For each output token, how many characters of the response's text it and the tokens before it hold.

    None where it is not known, and where the environment does not read turns.
    """
    output_mask: Int32s | None = None
    """1 for each output token to be used in training, else 0; None means all."""
    policy_version: int | None = None
    policy_versions: Int32s | None = None
    """Policy version per output token, if the weights changed during the answer."""
    reward: FiniteFloat | None = None
    """The verifier's reward for this turn, besides the rollout's; None if it gave none."""
    token_source: TokenSource = "none"

    @property
    def version_span(self) -> tuple[int, int] | None:
        """The oldest and the newest policy version that sampled it; None if unknown."""
        if self.policy_versions is not None and len(self.policy_versions):
            return min(self.policy_versions), max(self.policy_versions)
        return None if self.policy_version is None else (self.policy_version, self.policy_version)


class Intervention(Frozen):
    """A message of a person to an agent while it played; it is also in a turn's messages, if a turn followed."""

    at: FiniteFloat
    """Seconds from the rollout's start to the first model call with the message."""
    seat: str
    text: str


class EnvironmentRef(Frozen):
    """The environment that was played."""

    name: str
    version: str
    digest: str
    bundle: str | None = None
    """`sha256:…` of the bundle it was installed from; None if it ships with the hub, or runs from a folder."""
    dependencies: str | None = None
    """`sha256:…` of the pinned list of its dependencies; None if it has none of its own."""

    @property
    def identity(self) -> str:
        """A text that is equal for environments of the same code, bundle and dependencies."""
        return " ".join(part for part in (self.digest, self.bundle, self.dependencies) if part is not None)


class TaskRef(Frozen):
    """The task that was played."""

    split: str
    id: str
    digest: str
    source: str | None = None


class AgentRef(Frozen):
    """The agent that played, with its version and configuration."""

    name: str
    version: str
    config: dict[str, JsonValue] = {}


class SeatRef(Frozen):
    """The player of one seat that has a player of its own."""

    agent: AgentRef
    model: str | None = None
    version: int | None = None
    """The policy version that the model is, where a pool of older versions says so."""


class Timings(Frozen):
    """Seconds spent in each stage; `model` and `tool` are parts of `agent`."""

    queue: FiniteFloat = 0.0
    setup: FiniteFloat = 0.0
    agent: FiniteFloat = 0.0
    model: FiniteFloat = 0.0
    tool: FiniteFloat = 0.0
    verify: FiniteFloat = 0.0
    close: FiniteFloat = 0.0
    total: FiniteFloat = 0.0


Isolation = Literal["in_process", "process", "bubblewrap", "container"]
Opening = Literal["network", "engine"]
"""What an environment's server may reach through the wall around it: a network, or the container engine, with which it
can do all that the engine can.
"""


class Rollout(Frozen):
    """The durable record of one episode: one attempt at one sample of one task."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    rollout_id: str
    """Id of the sample; all attempts at it share it, and exactly one of them counts."""
    group_id: str
    """Id of the task within the run; all samples of the task share it."""
    sample: int = 0
    attempt: int = 0
    environment: EnvironmentRef
    task: TaskRef
    seed: int = 0
    agent: AgentRef
    model: str | None = None
    seats: dict[str, SeatRef] = {}
    """Seat → its own player; other seats were played by `agent` and `model`."""
    tools_digest: str | None = None
    """Digest of all tools of the environment; their schemas are stored once per run under it."""
    other_tools: dict[str, Tool] = {}
    """Tools that an agent showed its model but the environment does not have, or has in another form."""
    outcome: Outcome
    stop: Stop
    score: Score | None = None
    awaits_group: bool = False
    """Whether the rollout was played and waits for the verdict on its group. Such a record is not among the run's
    results.
    """
    answer: str | None = None
    """The answer given to `submit`."""
    turns: tuple[Turn, ...] = ()
    role_calls: tuple[ModelCall, ...] = ()
    """Model calls that the environment made, except those of its score (`score.judge_calls`)."""
    timings: Timings = Timings()
    started_at: FiniteFloat = 0.0
    """Unix time in seconds."""
    faults: tuple[Fault, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    isolation: Isolation = "in_process"
    """Where the environment ran: in the hub's process, in another process without a wall, or behind a wall."""
    openings: tuple[Opening, ...] = ()
    """What the environment could reach through its wall, as it declares."""
    retuned: Limits | None = None
    """The limits in force at its end, if a person changed them while it was played."""
    told: tuple[Intervention, ...] = ()
    """Messages of a person to its agent: the score is then not the agent's alone."""
    sandboxes: tuple[SandboxRef, ...] = ()
    """The sandboxes in which its programs ran, the agent's first; equal ones are listed once."""
    policy_version_min: int | None = None
    policy_version_max: int | None = None
    trainable: bool = False
    trainable_reason: str | None = None
    """Why the rollout is not trainable; None if it is."""
    gaps: tuple[str, ...] = ()
    """What could not be recorded, such as `token_ids`, `logprobs` or `tool_calls`."""
    notes: dict[str, JsonValue] | None = Field(default=None, exclude=True, repr=False)
    """What people noted, in a record that was read from a line of an export. It is no part of the record: runs keep
    notes beside it, and it is never written with it.
    """

    @property
    def reward(self) -> float | None:
        """The reward; None if the rollout is not scored, never 0 for that."""
        return self.score.reward if self.score is not None else None

    @property
    def policy_turns(self) -> tuple[Turn, ...]:
        """The turns that training of `model` uses, see `policy_turns`."""
        return policy_turns(self.turns, self.seats, self.model)

    @property
    def policy_seats(self) -> tuple[str, ...]:
        """The seats of `policy_turns`, in the order of their first turns."""
        return tuple(dict.fromkeys(turn.agent for turn in self.policy_turns))

    def model_of(self, seat: str) -> str | None:
        """Name of the model that played a seat."""
        player = self.seats.get(seat)
        return self.model if player is None else player.model

    def reward_of(self, seat: str) -> float | None:
        """The reward of a seat: its own if the verifier gave one, else the rollout's."""
        return None if self.score is None else self.score.seat_rewards.get(seat, self.score.reward)

    def model_post_init(self, context: object, /) -> None:
        if (self.outcome is Outcome.SCORED) != (self.score is not None or self.awaits_group):
            raise ValueError(f"outcome {self.outcome.value!r} and score {self.score!r} contradict each other")


def policy_turns(turns: Sequence[Turn], seats: Collection[str], model: str | None) -> tuple[Turn, ...]:
    """The turns of seats that are not in `seats` (which have their own players); all turns if there are none and
    `model` is None.
    """
    own = tuple(turn for turn in turns if turn.agent not in seats)
    return own if own or model is not None else tuple(turns)


def conversation_of(rollout: Rollout, seat: str | None = None) -> tuple[Message, ...]:
    """A seat's conversation up to its last response; by default the seat that spoke first."""
    if not rollout.turns:
        return ()
    name = rollout.turns[0].agent if seat is None else seat
    turns = {turn.index: turn for turn in rollout.turns}
    turn = next((turn for turn in reversed(rollout.turns) if turn.agent == name), None)
    conversation: list[Message] = []
    while turn is not None:
        conversation[:0] = [*turn.messages, turn.response]
        turn = None if turn.parent_turn is None else turns[turn.parent_turn]
    return tuple(conversation)


def submission_of(rollout: Rollout, seat: str | None = None, *, with_turns: bool = False) -> Submission:
    """The submission that a verifier gets for a stored rollout."""
    return Submission(
        answer=rollout.answer,
        transcript=conversation_of(rollout, seat),
        turns=tuple(map(submitted_turn, rollout.turns)) if with_turns else (),
        artifacts=rollout.artifacts,
        stop=rollout.stop.value,
    )


def submitted_turn(turn: Turn) -> SubmittedTurn:
    """A recorded turn in the form that a verifier gets."""
    ids = turn.output_token_ids
    return SubmittedTurn(
        index=turn.index,
        seat=turn.agent,
        messages=turn.messages,
        response=turn.response,
        output_tokens=None if ids is None else len(ids),
    )
