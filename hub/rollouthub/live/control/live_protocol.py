"""The messages between a running hub and its clients: one JSON object per line, with the id of the request it
answers.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, TypeAdapter, model_validator

from rollouthub.engine.run_control import RunEnding
from rollouthub.store.run_facts import State
from rollouthub.values import Frozen

PROTOCOL = 1
LONGEST_REQUEST = 64 * 1024
"""Most bytes of a line to the hub."""
LONGEST_ANSWER = 8 * 2**20
"""Most bytes of a line from the hub."""
MOST_CONCURRENT = 10_000
MOST_WORKERS = 4096

RequestId = Annotated[int, Field(gt=-(2**63), lt=2**63)] | Annotated[str, Field(max_length=64)]
Name = Annotated[str, Field(min_length=1, max_length=512)]


class ListRequest(Frozen):
    """Asks for the run's facts, and the rollouts in flight."""

    id: RequestId
    method: Literal["list"]
    limit: int = Field(default=200, ge=0, le=MOST_CONCURRENT)
    """Most rollouts to list, those longest in flight first."""


class EventsRequest(Frozen):
    """Asks for all events from now on, until the run or the connection ends."""

    id: RequestId
    method: Literal["events"]


class ShowRequest(Frozen):
    """Asks for one rollout in flight."""

    id: RequestId
    method: Literal["show"]
    rollout: Name
    content: bool = False
    """Whether to include messages and tool results, as plain text."""


class _EndRequest(Frozen):
    id: RequestId
    rollout: Name | None = None
    run: bool = False
    """Whether the whole run is meant; either this or a rollout must be given."""

    @model_validator(mode="after")
    def _one_of_them(self) -> "_EndRequest":
        if (self.rollout is None) != self.run:
            raise ValueError('name a "rollout", or say "run": true for the whole run, and not both')
        return self


class CancelRequest(_EndRequest):
    """Cancels a rollout without a score, or the run as a second Ctrl-C would."""

    method: Literal["cancel"]


class InterruptRequest(_EndRequest):
    """Ends a rollout's agent phase, whose work is then scored; or the run as one Ctrl-C would."""

    method: Literal["interrupt"]


class LimitChanges(Frozen):
    """Limits to change; null removes a limit."""

    max_turns: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_cost: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class RetuneRequest(Frozen):
    """Changes the number of concurrent episodes or of workers, or the limits of one rollout."""

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
    """Starts no new attempts until resumed; attempts in flight go on."""

    id: RequestId
    method: Literal["pause"]


class ResumeRequest(Frozen):
    """Starts new attempts again."""

    id: RequestId
    method: Literal["resume"]


class TellRequest(Frozen):
    """Sends a message to the agent of a rollout, as its user: its model call in flight is cut short and made again."""

    id: RequestId
    method: Literal["tell"]
    rollout: Name
    text: Annotated[str, Field(min_length=1, max_length=20_000)]


class RetryRequest(Frozen):
    """Plays a sample again that ended without a result; the new attempt counts, the old one stays recorded."""

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


class Done(Frozen):
    """The answer to a request that changes something."""

    message: str


class Following(Frozen):
    """The answer to `events`: the events follow it on the same connection."""

    following: Literal[True] = True
    in_flight: int


class RequestProblem(Frozen):
    """Why a request was refused."""

    kind: Literal["bad_request", "unknown_rollout", "too_late", "not_possible", "busy", "refused", "internal"]
    message: str
    known: tuple[str, ...] = ()
    """Rollouts in flight, if the one named is not."""


class StartedEvent(Frozen):
    """An attempt has started."""

    kind: Literal["started"] = "started"
    rollout_id: str
    environment: str
    task_id: str
    sample: int
    attempt: int


class StateEvent(Frozen):
    """An attempt has changed its state."""

    kind: Literal["state"] = "state"
    rollout_id: str
    state: State
    turn: int
    output_tokens: int


class TurnEvent(Frozen):
    """An agent has made a turn."""

    kind: Literal["turn"] = "turn"
    rollout_id: str
    turn: int
    agent: str
    output_tokens: int
    seconds: float
    finish_reason: str | None
    asked: tuple[str, ...]
    """Names of the tools it called."""


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
    """Events are missing here, because the client read too slowly."""

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
    """A line from the hub: an answer, a problem or an event."""

    id: RequestId | None
    """The id of the request; None if it could not be read."""
    result: dict[str, JsonValue] | None = None
    error: RequestProblem | None = None
    event: Event | None = None
