"""What is said at a door: a JSON object a line; answers and events carry the id of the request they belong to."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter, model_validator

from rollouthub.engine.run_control import RunEnding, RunState
from rollouthub.frozen import Frozen
from rollouthub.limits import Limits
from rollouthub.store.run_facts import State

PROTOCOL = 1
LONGEST_REQUEST = 64 * 1024
"""Bytes of a line to the hub."""
LONGEST_ANSWER = 8 * 2**20
"""Bytes of a line from the hub."""
MOST_CONCURRENT = 10_000
MOST_WORKERS = 4096

RequestId = Annotated[int, Field(gt=-(2**63), lt=2**63)] | Annotated[str, Field(max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=512)]


class ListRequest(Frozen):
    """The run's facts, and what is in flight."""

    id: RequestId
    method: Literal["list"]
    limit: int = Field(default=200, ge=0, le=MOST_CONCURRENT)
    """Rollouts to tell of, those longest in flight first."""


class EventsRequest(Frozen):
    """Everything that happens from now on, until the run or the connection ends."""

    id: RequestId
    method: Literal["events"]


class ShowRequest(Frozen):
    """One rollout in flight."""

    id: RequestId
    method: Literal["show"]
    rollout: Name
    content: bool = False
    """Also what was said and what tools gave, as plain text."""


class _Ending(Frozen):
    id: RequestId
    rollout: Name | None = None
    run: bool = False
    """The whole run; one of the two must be said."""

    @model_validator(mode="after")
    def _one_of_them(self) -> "_Ending":
        if (self.rollout is None) != self.run:
            raise ValueError('name a "rollout", or say "run": true for the whole run, and not both')
        return self


class CancelRequest(_Ending):
    """End a rollout unscored, or the run as a second Ctrl-C would."""

    method: Literal["cancel"]


class InterruptRequest(_Ending):
    """End the agent's time: what it did is scored. Or the run as one Ctrl-C would."""

    method: Literal["interrupt"]


class LimitChanges(Frozen):
    """Limits to change; null lifts one."""

    max_turns: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class RetuneRequest(Frozen):
    """How many episodes the run plays at a time, by how many workers, or the limits of one rollout."""

    id: RequestId
    method: Literal["retune"]
    concurrency: int | None = Field(default=None, ge=1, le=MOST_CONCURRENT)
    workers: int | None = Field(default=None, ge=1, le=MOST_WORKERS)
    rollout: Name | None = None
    limits: LimitChanges | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> "RetuneRequest":
        if (self.rollout is None) != (self.limits is None):
            raise ValueError('"limits" are those of one "rollout": say both or neither')
        if [self.rollout, self.concurrency, self.workers].count(None) != 2:
            raise ValueError('say "concurrency" or "workers" for the run, or a "rollout" and its "limits"')
        return self


class PauseRequest(Frozen):
    """Start nothing new until told to go on; what is in flight goes on."""

    id: RequestId
    method: Literal["pause"]


class ResumeRequest(Frozen):
    """Go on starting new episodes."""

    id: RequestId
    method: Literal["resume"]


class TellRequest(Frozen):
    """Say something to the agent of a rollout, as its user: what its model is saying is cut short, and it goes on."""

    id: RequestId
    method: Literal["tell"]
    rollout: Name
    text: Annotated[str, Field(min_length=1, max_length=20_000)]


class RetryRequest(Frozen):
    """Play a sample of this run again that ended without a result; the new attempt counts, the old one is kept."""

    id: RequestId
    method: Literal["retry"]
    rollout: Name


Request = Annotated[
    ListRequest
    | EventsRequest
    | ShowRequest
    | CancelRequest
    | InterruptRequest
    | RetuneRequest
    | PauseRequest
    | ResumeRequest
    | TellRequest
    | RetryRequest,
    Field(discriminator="method"),
]
requests: TypeAdapter[Request] = TypeAdapter(Request)


class BackendView(Frozen):
    """A model server that calls go to."""

    model: str
    """The model's name, as the run asks for it."""
    role: str
    """Who asks: `policy`, or the environment's role."""
    name: str
    """The server, without credentials."""
    in_flight: int
    calls: int
    """Begun since the run was, those tried again among them."""
    errors: int
    """Those that failed by the server's fault; a 429 is none."""
    latency_p50: float | None = None
    """Seconds, over the latest answers; None before the first. Where several workers call it, the longest of theirs."""
    latency_p95: float | None = None
    state: Literal["up", "cooling", "open"]
    """`cooling`: it is held off for a moment after a 429, or on trial after an outage; `open`, as of a circuit breaker:
    after too many faults in a row no call goes there."""
    reason: str | None = None
    """Why it is not up, or gets fewer calls at a time than there are."""


class WorkerView(Frozen):
    """A process that plays."""

    name: str
    node: str
    pid: int | None = None
    in_flight: int
    done: int
    """Attempts whose record came from it."""
    state: str
    """`starting`, `late`, `playing`, `idle`, `leaving` or `gone`."""


class SandboxesView(Frozen):
    """Sandboxes of one kind."""

    environment: str
    provider: str
    in_use: int
    warm: int | None = None
    """Ready and waiting; None where none are kept."""


class ShellView(Frozen):
    """How to get a shell in a place where a rollout's programs run."""

    label: str
    """What the place is: a provider and its walls."""
    command: tuple[str, ...]
    """What to run on this machine."""


class RunView(Frozen):
    """A run while it plays."""

    protocol: int = PROTOCOL
    run_id: str
    directory: str
    pid: int
    status: RunState
    environments: tuple[str, ...]
    agent: str
    model: str | None
    planned: int | None
    done: int | None
    """Samples with a durable record; None where the store could not be asked."""
    in_flight: int
    concurrency: int | None
    workers: int | None = None
    """Processes that play, where others than the hub's own do."""
    followers: int
    """Clients that follow its events."""
    started_at: float
    """Seconds since the epoch."""
    seconds: float
    """Since it began to play."""
    means: dict[str, JsonValue] | None
    """As `hub run --json` has them, over what is durable; None where the store could not be asked."""
    backends: tuple[BackendView, ...] = ()
    """Model servers. Where workers call them: as they last told, which they do a moment after a first `list`."""
    staff: tuple[WorkerView, ...] = ()
    """The workers one by one, where others than the hub's own process play."""
    sandboxes: tuple[SandboxesView, ...] = ()
    """Those of environments in the hub's own process or its workers'; not those of served ones."""


class RolloutView(Frozen):
    """An attempt in flight."""

    rollout_id: str
    environment: str
    task_id: str
    sample: int
    attempt: int
    state: State
    turn: int
    """Turns so far."""
    output_tokens: int
    seconds: float
    """Since the attempt began."""


class RunListing(Frozen):
    """The answer to `list`."""

    run: RunView
    rollouts: tuple[RolloutView, ...]
    left_out: int = 0
    """Rollouts in flight beyond the limit."""


class SaidView(Frozen):
    """A message as plain text."""

    role: str
    text: str


class CallView(Frozen):
    """A tool call that has ended."""

    name: str
    outcome: Literal["ok", "error"]
    seconds: float
    arguments: str | None = None
    """As JSON, where content was asked for."""
    result: str | None = None
    """As plain text, where content was asked for."""


class TurnView(Frozen):
    """A turn so far."""

    index: int
    parent_turn: int | None
    agent: str
    finish_reason: str | None
    output_tokens: int
    seconds: float
    asked: tuple[str, ...]
    """The tools it called, by name."""
    calls: tuple[CallView, ...]
    messages: tuple[SaidView, ...] | None = None
    """What was added before it, and what it said; where content was asked for."""


class RolloutDetails(RolloutView):
    """The answer to `show`."""

    seed: int
    agent: str
    model: str | None
    limits: Limits
    """Those in force."""
    retuned: bool
    cost: float
    model_seconds: float
    tool_seconds: float
    turns: tuple[TurnView, ...]
    turns_left_out: int
    """Turns before these."""
    shells: tuple[ShellView, ...] = ()
    """Ways in to where its programs run."""
    no_shell: str | None = None
    """Why there is none."""


class Done(Frozen):
    """The answer to what changes something."""

    message: str


class Following(Frozen):
    """The answer to `events`; they follow."""

    following: Literal[True] = True
    in_flight: int


class RequestProblem(Frozen):
    """Why a request was not answered."""

    kind: Literal["bad_request", "unknown_rollout", "too_late", "not_possible", "busy", "refused", "internal"]
    message: str
    known: tuple[str, ...] = ()
    """Rollouts in flight, where the one named is not."""


class StartedEvent(Frozen):
    """An attempt has begun."""

    kind: Literal["started"] = "started"
    rollout_id: str
    environment: str
    task_id: str
    sample: int
    attempt: int


class StateEvent(Frozen):
    """An attempt is in another state."""

    kind: Literal["state"] = "state"
    rollout_id: str
    state: State
    turn: int
    output_tokens: int


class TurnEvent(Frozen):
    """An agent has said something."""

    kind: Literal["turn"] = "turn"
    rollout_id: str
    turn: int
    agent: str
    output_tokens: int
    seconds: float
    finish_reason: str | None
    asked: tuple[str, ...]
    """The tools it called, by name."""


class ToolEvent(Frozen):
    """A tool call has ended."""

    kind: Literal["tool"] = "tool"
    rollout_id: str
    turn: int
    name: str
    outcome: Literal["ok", "error"]
    seconds: float


class FinishedEvent(Frozen):
    """An attempt is over. Its record may not be durable yet."""

    kind: Literal["finished"] = "finished"
    rollout_id: str
    attempt: int
    outcome: str
    stop: str
    reward: float | None
    turns: int
    output_tokens: int
    seconds: float
    fault: str | None
    """The first fault, as `boundary:type`."""


class DroppedEvent(Frozen):
    """Here events are missing: they came faster than they were read."""

    kind: Literal["dropped"] = "dropped"
    count: int


class RunEndedEvent(Frozen):
    """The last event."""

    kind: Literal["run_ended"] = "run_ended"
    run_id: str
    ending: RunEnding


Event = Annotated[
    StartedEvent | StateEvent | TurnEvent | ToolEvent | FinishedEvent | DroppedEvent | RunEndedEvent,
    Field(discriminator="kind"),
]


class HubLine(Frozen):
    """A line from the hub: one of the three."""

    id: RequestId | None
    """The request's; None where it could not be read."""
    result: dict[str, JsonValue] | None = None
    error: RequestProblem | None = None
    event: Event | None = None
