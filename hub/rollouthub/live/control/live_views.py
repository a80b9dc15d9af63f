"""What a live run shows to those who ask: the run, its machines, and its rollouts in flight."""

from typing import Literal

from pydantic import JsonValue

from rollouthub.engine.run_control import RunState
from rollouthub.limits import Limits
from rollouthub.live.control.live_protocol import PROTOCOL
from rollouthub.store.run_facts import State
from rollouthub.values import Frozen


class BackendView(Frozen):
    """A model server that the run calls."""

    model: str
    """The model's name, as the run names it."""
    role: str
    """The role of its model: `policy`, or a role of the environment."""
    name: str
    """The server's address, without credentials."""
    in_flight: int
    calls: int
    """Number of calls begun since the run started, retries included."""
    errors: int
    """Number of calls that failed by the server's fault; a 429 is not counted."""
    latency_p50: float | None = None
    """Seconds, over the latest answers; None before the first. Where several workers call it, the longest of theirs."""
    latency_p95: float | None = None
    state: Literal["up", "cooling", "open"]
    """`cooling`: it is held off for a moment after a 429, or on trial after an outage; `open`, as of a circuit breaker:
    after too many faults in a row no call goes there."""
    reason: str | None = None
    """Why it is not up, or is limited to fewer concurrent calls."""


class WorkerView(Frozen):
    """A worker process."""

    name: str
    node: str
    pid: int | None = None
    in_flight: int
    done: int
    """Number of attempts whose record it delivered."""
    state: str
    """`starting`, `late`, `playing`, `idle`, `leaving` or `gone`."""


class SandboxesView(Frozen):
    """Sandboxes of one kind."""

    environment: str
    provider: str
    in_use: int
    warm: int | None = None
    """Number of sandboxes in reserve; None if none are kept."""


class ShellView(Frozen):
    """How to open a shell where a rollout's programs run."""

    label: str
    """The sandbox's provider and isolation."""
    command: tuple[str, ...]
    """The command to run on this machine."""


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
    """Number of samples with a durable record; None if the store could not be read."""
    in_flight: int
    concurrency: int | None
    workers: int | None = None
    """Number of worker processes; None if the hub's own process plays."""
    followers: int
    """Number of clients that follow its events."""
    started_at: float
    """Unix time in seconds."""
    seconds: float
    """Seconds since it began to play."""
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
    """Number of turns so far."""
    output_tokens: int
    seconds: float
    """Seconds since the attempt began."""


class RunListing(Frozen):
    """The answer to `list`."""

    run: RunView
    rollouts: tuple[RolloutView, ...]
    left_out: int = 0
    """Number of rollouts in flight beyond the limit."""


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
    """As JSON, if content was asked for."""
    result: str | None = None
    """As plain text, if content was asked for."""


class TurnView(Frozen):
    """A turn so far."""

    index: int
    parent_turn: int | None
    agent: str
    finish_reason: str | None
    output_tokens: int
    seconds: float
    asked: tuple[str, ...]
    """Names of the tools it called."""
    calls: tuple[CallView, ...]
    messages: tuple[SaidView, ...] | None = None
    """The messages before the turn, and its response, if content was asked for."""


class RolloutDetails(RolloutView):
    """The answer to `show`."""

    seed: int
    agent: str
    model: str | None
    limits: Limits
    """The limits in force."""
    retuned: bool
    cost: float
    model_seconds: float
    tool_seconds: float
    turns: tuple[TurnView, ...]
    turns_left_out: int
    """Number of earlier turns that are not shown."""
    shells: tuple[ShellView, ...] = ()
    """Ways to open a shell where its programs run."""
    no_shell: str | None = None
    """Why no shell can be opened."""
