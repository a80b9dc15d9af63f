"""What the store tells a viewer: summary rows, live states, and facts about a run. Plain values; tables hold many."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from rollouthub.rollout import Outcome, Stop

Status = Literal["running", "finished", "interrupted", "failed"]
ShownStatus = Literal["running", "finished", "interrupted", "failed", "dead"]
"""`dead` is derived: the run says it is running, but nobody holds its lock."""
State = Literal["queued", "setup", "model", "tool", "verify", "close"]


@dataclass(frozen=True, slots=True)
class LiveState:
    """Where an attempt in flight is; shown at most twice a second, gone when its record is committed."""

    rollout_id: str
    environment: str
    task_id: str
    sample: int
    attempt: int
    state: State
    turn: int
    output_tokens: int
    updated_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class AttemptSummary:
    """One attempt in one row of a table."""

    seq: int
    """Grows with every change of a row, over the whole run: read on from the highest you have seen."""
    rollout_id: str
    group_id: str
    environment: str
    split: str
    task_id: str
    source: str | None
    sample: int
    attempt: int
    effective: bool
    """Whether this attempt is the one that counts for its sample."""
    outcome: Outcome
    stop: Stop
    reward: float | None
    passed: bool | None
    turns: int
    tool_calls: int
    prompt_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars of all model calls, judges and simulated users included; None where none has a price."""
    seconds: float
    """The whole attempt; the stages follow."""
    queue_seconds: float
    setup_seconds: float
    agent_seconds: float
    model_seconds: float
    tool_seconds: float
    verify_seconds: float
    close_seconds: float
    started_at: float
    finished_at: float
    fault: str | None
    """The first fault, as `boundary:type`."""
    trainable: bool
    suspect: bool = False
    """Whether its verifier gave a reason not to trust the reward."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """One time that a run was taken up again."""

    at: float
    """Seconds since the epoch."""
    host: str
    """The machine that did."""
    hub_version: str
    changes: tuple[str, ...]
    """What was set otherwise than before, a line each."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Facts about a run."""

    directory: Path
    run_id: str
    status: ShownStatus
    created_at: float
    """Seconds since the epoch."""
    finished_at: float | None
    planned: int | None
    """Rollouts planned; None until the plan is known."""
    bad_rows: int
    """Rows that make no task and were left out."""
    schema: int
    hub_version: str
    resolved: dict[str, JsonValue]
    host: str | None = None
    """The machine that made it; None in runs of versions that did not say."""
    stopped: str | None = None
    """Why the run ended before everything planned was played, where it did so by itself."""
    resumptions: tuple[Resumption, ...] = ()
    """Every time it was taken up again."""


@dataclass(frozen=True, slots=True)
class BrokenRun:
    """A directory that holds a run which cannot be read, and why."""

    directory: Path
    problem: str


@dataclass(frozen=True, slots=True)
class RoleUsage:
    """What the calls of one role have used."""

    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars; None where no call has a price."""

    def __add__(self, other: "RoleUsage") -> "RoleUsage":
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return RoleUsage(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.output_tokens + other.output_tokens,
            sum(costs) if costs else None,
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run has used, over all its attempts."""

    attempts: int
    turns: int
    tool_calls: int
    prompt_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars; None where no call has a price."""
