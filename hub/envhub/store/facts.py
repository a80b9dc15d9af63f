"""What the store tells a viewer: summary rows, live states, and facts about a run. Plain values; tables hold many."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from envhub.rollout import Outcome, Stop

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
class Summary:
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


@dataclass(frozen=True, slots=True)
class BrokenRun:
    """A directory that holds a run which cannot be read, and why."""

    directory: Path
    problem: str


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
