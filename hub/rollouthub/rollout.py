"""The record: what happened in one episode, complete enough to defend its score and to train on.

Calls are logged, training sequences are derived (`segment.py`). A record reads back without the environment's package.
"""

from enum import StrEnum
from typing import Literal

from mcp_types import CallToolResult, Tool
from pydantic import JsonValue

from rollouthub.frozen import Frozen
from rollouthub.limits import Limits
from rollouthub.messages import Message
from rollouthub.packed import Float32s, Int32s
from rollouthub.sandbox import SandboxRef
from rollouthub.score import Artifact, FiniteFloat, ModelCall, Score, Submission

SCHEMA_VERSION = 1

SUSPECT = "its score is suspect: "
"""How the reason begins why a rollout with a suspect score is not trainable."""


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
        """The kind of ending; never mixed in means, exit codes or screens."""
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
    """Why the agent's turn ended. A limit is a stop, and a stopped episode is scored."""

    FINISHED = "finished"
    SUBMITTED = "submitted"
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    COST_LIMIT = "cost_limit"
    CONTEXT_LIMIT = "context_limit"
    INTERRUPTED = "interrupted"
    """Someone who watched the run ended the agent's time; what it had done by then is scored."""
    CANCELLED = "cancelled"
    FAILED = "failed"
    """A boundary broke before the agent was done; the outcome says which."""


Phase = Literal["setup", "agent", "verify", "close"]
TokenSource = Literal["engine", "none"]


class Fault(Frozen):
    """Something that broke, by boundary and phase."""

    boundary: Literal["agent", "model", "environment", "sandbox", "verifier", "hub"]
    phase: Phase
    type: str
    """The exception's class name."""
    message: str
    retryable: bool = False
    status: int | None = None
    """The HTTP status, where one came."""


class ToolCall(Frozen):
    """One tool call as it ran."""

    id: str
    name: str
    arguments: JsonValue
    """The parsed arguments, or the model's text where it was no JSON object."""
    result: CallToolResult
    """As the agent got it; the `data` of an image or sound is its digest, its bytes lie in `media/`."""
    started: FiniteFloat
    """Seconds since the rollout started."""
    seconds: FiniteFloat
    bytes: int
    """Size of the result's content."""

    @property
    def is_error(self) -> bool:
        """Whether the result told the model of an error."""
        return self.result.is_error


class Usage(Frozen):
    """Tokens as the backend counted them."""

    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


BROKEN_OFF = "broken_off"
"""The finish reason of a response whose end nobody saw: who asked hung up, or the model's server did. What of it was
handed on is recorded; its tokens and cost are an estimate."""


class Turn(Frozen):
    """One response of an agent's model (or of a script or a person), with the tool calls it asked for."""

    index: int
    parent_turn: int | None = None
    """The turn whose conversation this one extends; None starts a new one."""
    agent: str = "agent"
    """The seat that spoke."""
    messages: tuple[Message, ...]
    """What was added to the parent's conversation before this response."""
    response: Message
    tools: tuple[str, ...] | None = None
    """The tools the model was shown, by name, or by what `other_tools` calls them.

    None where no model was asked, and in records from before this was noted.
    """
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage = Usage()
    cost: FiniteFloat | None = None
    """US dollars; None where no price is known."""
    model: str | None = None
    """The model that answered, where it was not the run's own: a fallback."""
    sampling: dict[str, JsonValue] = {}
    started: FiniteFloat = 0.0
    """Seconds since the rollout started."""
    seconds: FiniteFloat = 0.0
    retries: int = 0
    """Failed tries of the model call before this answer."""
    prompt_token_ids: Int32s | None = None
    output_token_ids: Int32s | None = None
    output_logprobs: Float32s | None = None
    output_mask: Int32s | None = None
    """1 where an output token may be learnt from; None means all."""
    policy_version: int | None = None
    policy_versions: Int32s | None = None
    """Per output token, where weights changed in mid-answer."""
    reward: FiniteFloat | None = None
    token_source: TokenSource = "none"

    @property
    def version_span(self) -> tuple[int, int] | None:
        """The oldest and the newest policy version that sampled it; None where nobody knows."""
        if self.policy_versions is not None and len(self.policy_versions):
            return min(self.policy_versions), max(self.policy_versions)
        return None if self.policy_version is None else (self.policy_version, self.policy_version)


class Told(Frozen):
    """What a person said to an agent while it played; it is among the messages of a turn, too, where one followed."""

    at: FiniteFloat
    """Seconds since the rollout started, when a model was first asked with it."""
    seat: str
    text: str


class EnvironmentRef(Frozen):
    """Which environment was played."""

    name: str
    version: str
    digest: str
    bundle: str | None = None
    """`sha256:…` of the bundle it was installed from; None of one that comes with the hub, or runs from a folder."""
    dependencies: str | None = None
    """`sha256:…` over the pinned list of what it was installed with; None where it has nothing of its own."""

    @property
    def identity(self) -> str:
        """The same where all of its bytes are."""
        return " ".join(part for part in (self.digest, self.bundle, self.dependencies) if part is not None)


class TaskRef(Frozen):
    """Which task was played."""

    split: str
    id: str
    digest: str
    source: str | None = None


class AgentRef(Frozen):
    """Who acted."""

    name: str
    version: str
    config: dict[str, JsonValue] = {}


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


Isolation = Literal["in_process", "process", "container"]


class Rollout(Frozen):
    """The durable record of one episode: one attempt at one sample of one task."""

    schema_version: int = SCHEMA_VERSION
    run_id: str
    rollout_id: str
    """Names the sample; attempts at it share it, and exactly one of them is effective."""
    group_id: str
    """Names the task within the run; its samples share it."""
    sample: int = 0
    attempt: int = 0
    environment: EnvironmentRef
    task: TaskRef
    seed: int = 0
    agent: AgentRef
    model: str | None = None
    tools_digest: str | None = None
    """All tools of the environment; their schemas are kept once per run under this digest."""
    other_tools: dict[str, Tool] = {}
    """Tools that an agent showed its model and the environment does not have, or not so."""
    outcome: Outcome
    stop: Stop
    score: Score | None = None
    answer: str | None = None
    """What was given to `submit`."""
    turns: tuple[Turn, ...] = ()
    role_calls: tuple[ModelCall, ...] = ()
    """Calls of models that the environment made itself, those of its score (`score.judge_calls`) left out."""
    timings: Timings = Timings()
    started_at: FiniteFloat = 0.0
    """Seconds since the epoch."""
    faults: tuple[Fault, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    isolation: Isolation = "in_process"
    """How the environment was hosted."""
    retuned: Limits | None = None
    """The limits it ended under, where someone changed them while it was played."""
    told: tuple[Told, ...] = ()
    """What a person said to its agent while it was played: its score is not the agent's alone."""
    sandboxes: tuple[SandboxRef, ...] = ()
    """Where its programs ran, as it really was: the agent's first, equal ones once."""
    policy_version_min: int | None = None
    policy_version_max: int | None = None
    trainable: bool = False
    trainable_reason: str | None = None
    """Why not, where `trainable` is false."""
    gaps: tuple[str, ...] = ()
    """What could not be recorded."""

    @property
    def reward(self) -> float | None:
        """The reward, or None: unscored is never zero."""
        return self.score.reward if self.score is not None else None

    def model_post_init(self, context: object, /) -> None:
        if (self.outcome is Outcome.SCORED) != (self.score is not None):
            raise ValueError(f"outcome {self.outcome.value!r} and score {self.score!r} contradict each other")


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


def submission_of(rollout: Rollout, seat: str | None = None) -> Submission:
    """The submission a verifier is given for a stored rollout."""
    return Submission(
        answer=rollout.answer,
        transcript=conversation_of(rollout, seat),
        artifacts=rollout.artifacts,
        stop=rollout.stop.value,
    )
