"""The data that the store offers to viewers: summary rows, live states, and facts about a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

from rollouthub.rollout import Outcome, Stop

Status = Literal["running", "finished", "interrupted", "failed"]
ShownStatus = Literal["running", "finished", "interrupted", "failed", "dead"]
"""The status that viewers show. `dead` is derived: the run is recorded as running, but no process holds its lock."""
READ_FROM = "read_from"
"""Key of the resolved request of a run that was not played here but read from another tool's files."""
State = Literal["queued", "setup", "model", "tool", "verify", "close"]


@dataclass(frozen=True, slots=True)
class LiveState:
    """The state of an attempt in flight; written at most twice a second, removed when its record is committed."""

    rollout_id: str
    environment: str
    task_id: str
    sample: int
    attempt: int
    state: State
    turn: int
    output_tokens: int
    updated_at: float
    """Unix time in seconds."""


@dataclass(frozen=True, slots=True)
class AttemptSummary:
    """The summary row of one attempt."""

    seq: int
    """Increases with every change of a row in the run; to read only changes, ask for rows above the highest value
    seen.
    """
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
    """Seconds of the whole attempt; the following fields are the seconds of its stages."""
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
    """Whether the verifier gave a reason not to trust the reward."""


@dataclass(frozen=True, slots=True)
class Resumption:
    """One resumption of a run."""

    at: float
    """Unix time in seconds."""
    host: str
    """Name of the machine that resumed the run."""
    hub_version: str
    changes: tuple[str, ...]
    """The changed settings, one line each."""


@dataclass(frozen=True, slots=True)
class ReadFrom:
    """Where a run comes from that was not played by a hub."""

    format: str
    path: str
    tool: str
    """The tool that made it, and its version as far as known."""
    created_at: float | None
    """When the tool made it, in Unix time; None if that is not known."""
    totals: dict[str, JsonValue]
    """What the tool itself says of its run, by name."""
    missing: tuple[str, ...]
    """What the format does not have, in words."""

    @classmethod
    def of(cls, given: Mapping[str, JsonValue]) -> "ReadFrom":
        """Read it from the run's resolved request, which may come from elsewhere."""
        totals, missing, created = given.get("totals"), given.get("missing"), given.get("created_at")
        return cls(
            format=str(given.get("format") or "another tool"),
            path=str(given.get("path") or ""),
            tool=str(given.get("tool") or "another tool"),
            created_at=float(created) if isinstance(created, int | float) else None,
            totals=totals if isinstance(totals, dict) else {},
            missing=tuple(str(each) for each in missing) if isinstance(missing, list) else (),
        )


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Facts about a run."""

    directory: Path
    run_id: str
    status: ShownStatus
    created_at: float
    """Unix time in seconds."""
    finished_at: float | None
    planned: int | None
    """Number of planned rollouts; None until the plan is known."""
    bad_rows: int
    """Number of data rows that are not valid tasks and were left out."""
    schema: int
    hub_version: str
    resolved: dict[str, JsonValue]
    host: str | None = None
    """Name of the machine that created the run; None in runs of versions that did not record it."""
    stopped: str | None = None
    """Why the run ended by itself before all planned rollouts were played; None otherwise."""
    resumptions: tuple[Resumption, ...] = ()
    """All resumptions of the run."""
    remarks: tuple[str, ...] = ()
    """What whoever wrote the run has to say about it, such as entries of another tool's file that were left out."""

    @property
    def read_from(self) -> "ReadFrom | None":
        """The other tool's files that the run was read from; None if it was played by a hub."""
        given = self.resolved.get(READ_FROM)
        return ReadFrom.of(given) if isinstance(given, dict) else None

    @property
    def place(self) -> Path:
        """Where people know the run: its directory, or the other tool's files that it was read from."""
        source = self.read_from
        return self.directory if source is None else Path(source.path)

    @property
    def origin_lines(self) -> tuple[str, ...]:
        """For a run that was read from another tool's files: which, what the tool says of it, what is not in them, and
        the remarks; empty for a run that a hub played. The words may be strangers'.
        """
        source = self.read_from
        if source is None:
            return self.remarks
        told = ", ".join(f"{name} {value}" for name, value in source.totals.items())
        return (
            f"Read from {source.format} files of {source.tool}, not played here: {source.path}",
            *([f"{source.tool} says itself: {told}"] if told else []),
            *([f"Not in these files: {'; '.join(source.missing)}"] if source.missing else []),
            *self.remarks,
        )

    @property
    def repeats(self) -> int:
        """Number of planned samples per task; 1 if the run does not say."""
        request = self.resolved.get("request")
        repeats = request.get("repeats") if isinstance(request, dict) else None
        return repeats if isinstance(repeats, int) else 1

    @property
    def seats(self) -> dict[str, str]:
        """Seat → its own player in the form of `--seat`: a model, an agent or both."""
        request = self.resolved.get("request")
        seats = request.get("seats") if isinstance(request, dict) else None
        return {seat: _player(given) for seat, given in seats.items()} if isinstance(seats, dict) else {}


def _player(given: JsonValue) -> str:
    player = given if isinstance(given, dict) else {}
    agent, pool = player.get("agent"), player.get("pool")
    name = _model_name(player.get("model"))
    if isinstance(pool, list) and pool:
        name = "|".join(_model_name(each.get("model")) for each in pool if isinstance(each, dict))
    return "@".join((name, *([str(agent)] if agent else [])))


def _model_name(model: JsonValue) -> str:
    name = model.get("name") if isinstance(model, dict) else model
    return str(name or "")


@dataclass(frozen=True, slots=True)
class BrokenRun:
    """A run directory that cannot be read, and the reason."""

    directory: Path
    problem: str


@dataclass(frozen=True, slots=True)
class RoleUsage:
    """Tokens and cost of the calls of one role."""

    calls: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars; None if the price of no call is known."""

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
    """Tokens and cost of a run, over all its attempts."""

    attempts: int
    turns: int
    tool_calls: int
    prompt_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars; None if the price of no call is known."""
