"""Requests and answers of the control plane, for the server and for the hub's client alike.

All of it is privileged: it is sent on a separate listener, with a credential that no agent has.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Literal

from mcp_types import Tool
from pydantic import Field, JsonValue, field_validator

from rollouthub.errors import (
    AgentError,
    ConfigError,
    CredentialError,
    EpisodeError,
    HubError,
    ModelError,
    NotOffered,
    SandboxError,
    SandboxOverrun,
    TaskError,
    UsageError,
    VerifierError,
)
from rollouthub.limits import Deadlines
from rollouthub.messages import Message, digest_of
from rollouthub.rollout import Fault
from rollouthub.sandbox import SandboxRef
from rollouthub.score import Artifact, ModelCall, SampleGroup, Score, Submission
from rollouthub.values import Frozen

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
"""Error classes that are sent by name; a subclass is sent as its nearest base listed here."""


class ControlProblem(Frozen):
    """Why a call of the control plane failed; the `error` in the body of every failure."""

    type: str
    """A name of `ERRORS`."""
    message: str
    retryable: bool = False


class Failure(Frozen):
    """The body of an answer that is a failure."""

    error: ControlProblem


class Card(Frozen):
    """A task as the control plane lists it: its public half, and a digest over both."""

    split: str
    digest: str
    has_reference: bool | None = None
    """Whether the task has a reference solution; None if unknown."""
    public: dict[str, JsonValue]


class BadCard(Frozen):
    """A row that is not a valid task."""

    problem: str
    file: str
    line: int | None = None


class CardPage(Frozen):
    """Some tasks of a split, in order."""

    cards: tuple[Card | BadCard, ...]
    next_cursor: str | None = None
    """The cursor of the next page; None at the end."""


class TaskKey(Frozen):
    """Identifies a task: its id, its split, and the seed that the split was read with."""

    id: str
    split: str
    seed: int = 0


class OpenEpisode(Frozen):
    """Body of `POST /v1/episodes`."""

    task: TaskKey
    seed: int = 0
    """The episode's seed; samples of one group share it."""
    deadlines: Deadlines = Deadlines()
    """The deadlines that the server applies; it uses `setup`, `tool_call`, `verify` and `close`."""
    params: dict[str, JsonValue] = {}
    """Settings of this one episode, if the environment has such settings; unknown names are refused."""
    state: JsonValue = None
    """A snapshot to restore."""
    ttl_seconds: float | None = Field(default=None, gt=0)
    """Seconds after which the server closes the episode; the server may have a lower limit."""
    idempotency_key: str | None = Field(default=None, max_length=200)
    """Requests with the same key open only one episode."""


class OpenedSeat(Frozen):
    """A seat of an opened episode."""

    name: str
    token: str
    url: str
    """The seat's MCP endpoint."""
    tools: tuple[str, ...]
    """Names of its tools; the definitions are in `GET /v1/environment`, or in `task_tools`."""
    task_tools: tuple[Tool, ...] = ()
    """Definitions of the tools that only this task has."""
    messages: tuple[Message, ...]


class OpenedEpisode(Frozen):
    """The answer to `POST /v1/episodes`."""

    id: str
    seats: tuple[OpenedSeat, ...]
    seed: int
    tools_digest: str
    expires_at: float
    """Unix time in seconds."""


class ArtifactBody(Frozen):
    """An artifact with its bytes."""

    name: str
    data: str
    """The bytes in base64."""


class ArtifactBodies(Frozen):
    """Answer to `GET /v1/episodes/{id}/artifacts`, available once the episode is verified."""

    artifacts: tuple[ArtifactBody, ...] = ()


class EpisodeStatus(Frozen):
    """Answer to `GET /v1/episodes/{id}`, and to seal and close."""

    id: str
    state: Literal["open", "sealed", "closed"]
    answer: str | None = None
    faults: tuple[Fault, ...] = ()
    role_calls: tuple[ModelCall, ...] = ()
    sandboxes: tuple[SandboxRef, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    """The artifacts collected when the episode was sealed; known once it is verified."""
    missing_artifacts: tuple[str, ...] = ()
    """Reasons why artifacts are missing."""
    expires_at: float = 0.0


class ReplyRequest(Frozen):
    """Body of `POST /v1/episodes/{id}/reply`."""

    seat: str
    messages: tuple[Message, ...]


class LeaveRequest(Frozen):
    """Body of `POST /v1/episodes/{id}/leave`, for environments with `takes_turns`."""

    seat: str


class ReplyAnswer(Frozen):
    """The environment's next user messages."""

    messages: tuple[Message, ...] | None
    """None when the conversation is over."""
    task_tools: tuple[Tool, ...] | None = None
    """The tools that only this task has at this seat, if they have changed; else None."""


class Reference(Frozen):
    """Answer to `GET /v1/tasks/{id}/reference` and `GET /v1/episodes/{id}/reference`."""

    messages: tuple[Message, ...]


class EpisodeStateBody(Frozen):
    """Answer to `GET /v1/episodes/{id}/state`."""

    state: JsonValue


class VerifyRequest(Frozen):
    """Body of `POST /v1/episodes/{id}/verify`."""

    submission: Submission = Submission()
    unless_broken: bool = False
    """Give no score if the environment broke before; complete a missing answer with the one given to `submit`."""


class EpisodeVerdict(Frozen):
    """A score, or the error instead of one."""

    score: Score | None = None
    error: ControlProblem | None = None


class Verified(Frozen):
    """Answer to verify: the score and the episode's status."""

    score: Score | None
    """The score; None if the environment broke before and the request has `unless_broken`."""
    status: EpisodeStatus


class BatchEntry(Frozen):
    """One submission to score without an episode."""

    task: TaskKey
    submission: Submission
    seed: int = 0


class BatchRequest(Frozen):
    """Body of `POST /v1/verify`."""

    entries: tuple[BatchEntry, ...] = Field(max_length=1000)
    deadlines: Deadlines = Deadlines()


class BatchAnswer(Frozen):
    """Verdicts in the order of the entries."""

    verdicts: tuple[EpisodeVerdict, ...]


class GroupRequest(Frozen):
    """Body of `POST /v1/score_group`."""

    task: TaskKey
    seed: int = 0
    group: SampleGroup
    deadlines: Deadlines = Deadlines()

    @field_validator("group")
    @classmethod
    def _names_each_sample_once(cls, group: SampleGroup) -> SampleGroup:
        if not group.members:
            raise ValueError("no member is to be judged")
        samples = [member.sample for member in (*group.members, *group.lost)]
        if len(set(samples)) < len(samples) or min(samples) < 0:
            raise ValueError("members and lost are named by their samples, from 0, each of them once")
        return group


class MediaBody(Frozen):
    """A picture, sound or file with its bytes."""

    digest: str
    data: str
    """The bytes in base64."""


def media_bodies(media: Mapping[str, bytes]) -> tuple[MediaBody, ...]:
    """Media as they are sent, from their bytes by digest."""
    return tuple(MediaBody(digest=digest, data=base64.b64encode(content).decode()) for digest, content in media.items())


def media_in(bodies: Iterable[MediaBody]) -> dict[str, bytes]:
    """Digest → bytes of media that were sent.

    Raises:
        ValueError: one is no base64, or holds other bytes than its digest says.
    """
    media = {body.digest: base64.b64decode(body.data, validate=True) for body in bodies}
    for digest, content in media.items():
        if digest_of(content) != digest:
            raise ValueError(f"media {digest[:80]!r} has {len(content):,} bytes of another digest")
    return media


class Accompanied(Frozen):
    """The bytes that go with a request's submissions, to hosts that say `takes_media`."""

    media: tuple[MediaBody, ...] | None = None
    """The media and artifacts of the submissions, each once; None if the caller knows nothing of them."""


class ShownVerifyRequest(VerifyRequest, Accompanied):
    """Body of `POST /v1/episodes/{id}/verify` to a host that takes media, where it did not show them itself."""


class ShownBatchRequest(BatchRequest, Accompanied):
    """Body of `POST /v1/verify` to a host that takes media."""


class ShownBatchAnswer(BatchAnswer):
    """Answer to a `ShownBatchRequest` with media."""

    media: tuple[MediaBody, ...] = ()
    """The media in the judge calls that the request did not bring."""


class ShownGroupRequest(GroupRequest, Accompanied):
    """Body of `POST /v1/score_group` to a host that takes media."""


class GroupVerdict(Frozen):
    """Answer to `POST /v1/score_group`: a score for each member, in order."""

    scores: tuple[Score, ...]


class ShownGroupVerdict(GroupVerdict):
    """Answer to a `ShownGroupRequest` with media."""

    media: tuple[MediaBody, ...] = ()
    """The media in the judge calls that the request did not bring."""


def problem_of(error: HubError) -> ControlProblem:
    """An error in the form in which it is sent."""
    kind = next((base.__name__ for base in type(error).__mro__ if ERRORS.get(base.__name__) is base), "TaskError")
    return ControlProblem(type=kind, message=str(error), retryable=isinstance(error, EpisodeError) and error.retryable)


def error_of(problem: ControlProblem) -> HubError:
    """The error that was received; one of an unknown type becomes a `TaskError`."""
    kind = ERRORS.get(problem.type, TaskError)
    if issubclass(kind, TaskError | SandboxError | ModelError | AgentError | VerifierError):
        return kind(problem.message, retryable=problem.retryable)
    return kind(problem.message)
