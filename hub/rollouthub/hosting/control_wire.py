"""The control plane on the wire: what its calls carry, for the server and for the hub's client alike.

Everything here is privileged: it travels on a listener of its own, with a credential no agent ever holds.
"""

from typing import Literal

from pydantic import Field, JsonValue

from rollouthub.errors import (
    AgentError,
    ConfigError,
    CredentialError,
    HubError,
    ModelError,
    NotOffered,
    SandboxError,
    SandboxOverrun,
    TaskError,
    UsageError,
    VerifierError,
)
from rollouthub.frozen import Frozen
from rollouthub.limits import Deadlines
from rollouthub.messages import Message
from rollouthub.rollout import Fault
from rollouthub.sandbox import SandboxRef
from rollouthub.score import ModelCall, Score, Submission

ERRORS: dict[str, type[HubError]] = {
    kind.__name__: kind
    for kind in (
        AgentError,
        ConfigError,
        CredentialError,
        ModelError,
        NotOffered,
        SandboxError,
        SandboxOverrun,
        TaskError,
        UsageError,
        VerifierError,
    )
}
"""Errors that cross the wire under their own name; of a subclass, its nearest base here."""


class ControlProblem(Frozen):
    """Why a call of the control plane failed: the body of every answer that is no success, under `error`."""

    type: str
    """A name of `ERRORS`."""
    message: str
    retryable: bool = False


class Failure(Frozen):
    """An answer that is no success."""

    error: ControlProblem


class Card(Frozen):
    """A task as the control plane lists it: its public half, and a digest over both."""

    split: str
    digest: str
    has_reference: bool | None = None
    """Whether there is a reference solution of it; None where that is not known."""
    public: dict[str, JsonValue]


class BadCard(Frozen):
    """A row that makes no task."""

    problem: str
    file: str
    line: int | None = None


class CardPage(Frozen):
    """Some tasks of a split, in order."""

    cards: tuple[Card | BadCard, ...]
    next_cursor: str | None = None
    """For the next page; None at the end."""


class TaskKey(Frozen):
    """Names a task: its id, in a split read with a seed."""

    id: str
    split: str
    seed: int = 0


class OpenEpisode(Frozen):
    """`POST /v1/episodes`."""

    task: TaskKey
    seed: int = 0
    """The episode's own; samples of one group share it."""
    deadlines: Deadlines = Deadlines()
    """In force on the server; `setup`, `tool_call`, `verify` and `close` matter there."""
    params: dict[str, JsonValue] = {}
    """What the environment lets a caller set for one episode; unknown names are refused."""
    state: JsonValue = None
    """A snapshot to restore."""
    ttl_seconds: float | None = Field(default=None, gt=0)
    """How long the episode may live; the server's own bound wins."""
    idempotency_key: str | None = Field(default=None, max_length=200)
    """The same key opens one episode, however often it is sent."""


class OpenedSeat(Frozen):
    """An agent's place in an episode."""

    name: str
    token: str
    url: str
    """The seat's MCP endpoint."""
    tools: tuple[str, ...]
    """Names; the definitions are in `GET /v1/environment`."""
    messages: tuple[Message, ...]


class OpenedEpisode(Frozen):
    """The answer to `POST /v1/episodes`."""

    id: str
    seats: tuple[OpenedSeat, ...]
    seed: int
    tools_digest: str
    expires_at: float
    """Seconds since the epoch."""


class EpisodeStatus(Frozen):
    """`GET /v1/episodes/{id}`; also the answer to seal and close."""

    id: str
    state: Literal["open", "sealed", "closed"]
    answer: str | None = None
    faults: tuple[Fault, ...] = ()
    role_calls: tuple[ModelCall, ...] = ()
    sandboxes: tuple[SandboxRef, ...] = ()
    expires_at: float = 0.0


class ReplyRequest(Frozen):
    """`POST /v1/episodes/{id}/reply`."""

    seat: str
    messages: tuple[Message, ...]


class ReplyAnswer(Frozen):
    """The environment's next user messages."""

    messages: tuple[Message, ...] | None
    """None when the conversation is over."""


class Reference(Frozen):
    """`GET /v1/tasks/{id}/reference` and `GET /v1/episodes/{id}/reference`."""

    messages: tuple[Message, ...]


class EpisodeStateBody(Frozen):
    """`GET /v1/episodes/{id}/state`."""

    state: JsonValue


class VerifyRequest(Frozen):
    """`POST /v1/episodes/{id}/verify`."""

    submission: Submission = Submission()
    unless_broken: bool = False
    """Give no score where the environment broke before; complete a missing answer with the one given to `submit`."""


class EpisodeVerdict(Frozen):
    """A score, or why there is none."""

    score: Score | None = None
    error: ControlProblem | None = None


class Verified(Frozen):
    """The answer to verify: the verdict, and the episode as it stands."""

    score: Score | None
    """None where the environment broke before, and the request wanted none then."""
    status: EpisodeStatus


class BatchEntry(Frozen):
    """One submission to score without an episode."""

    task: TaskKey
    submission: Submission
    seed: int = 0


class BatchRequest(Frozen):
    """`POST /v1/verify`."""

    entries: tuple[BatchEntry, ...] = Field(max_length=1000)
    deadlines: Deadlines = Deadlines()


class BatchAnswer(Frozen):
    """Verdicts in the order of the entries."""

    verdicts: tuple[EpisodeVerdict, ...]


def problem_of(error: HubError) -> ControlProblem:
    """An error as it crosses the wire."""
    kind = next((base.__name__ for base in type(error).__mro__ if ERRORS.get(base.__name__) is base), "TaskError")
    return ControlProblem(type=kind, message=str(error), retryable=bool(getattr(error, "retryable", False)))


def error_of(problem: ControlProblem) -> HubError:
    """The error that crossed the wire; an unknown kind is the environment's."""
    kind = ERRORS.get(problem.type, TaskError)
    if issubclass(kind, TaskError | SandboxError | ModelError | AgentError | VerifierError):
        return kind(problem.message, retryable=problem.retryable)
    return kind(problem.message)
