"""A run in the form that the doctor needs: one row of plain values for each attempt, read with two queries."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rollouthub.rollout import Outcome
from rollouthub.store import LiveState, RunInfo, open_run
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub.store.sql_schema import TURN_BITS

LONGEST_TEXT = 300


class AttemptRow(NamedTuple):
    """One attempt. A row takes less memory than the full record; a run can have tens of thousands."""

    rollout_id: str
    group_id: str
    environment: str
    task_id: str
    attempt: int
    effective: int
    outcome: str
    stop: str
    reward: float | None
    passed: int | None
    turns: int
    tool_calls: int
    prompt_tokens: int
    output_tokens: int
    seconds: float
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
    fault_phase: str | None
    fault_status: int | None
    fault_message: str | None
    answered: float | None
    """The verifier's metric `answered`, 0 where it found no answer; None where it has no such metric."""
    feedback: str | None
    """The beginning of the verifier's feedback; None where the attempt passed, or there is none."""
    answer: str | None
    untrainable: str | None
    retries: int
    """Number of failed tries of its model calls."""
    cut: int
    """Number of responses cut off by the token limit."""
    tool_errors: int
    """Number of turns with a tool call that returned an error."""
    last_length: int
    """Number of characters of its last response; -1 if it has no turn."""
    last_requests: int
    """Number of tool calls in its last response."""

    @property
    def is_scored(self) -> bool:
        """Whether it has a reward."""
        return self.outcome == Outcome.SCORED


_SPOKEN = f"""
SELECT id >> {TURN_BITS}, max(id),
    sum(json_extract(body, '$.retries')),
    sum(json_extract(body, '$.finish_reason') IS 'length'),
    sum(instr(body, '"is_error":true') > 0),
    length(trim(coalesce(json_extract(body, '$.response.content'), ''))),
    json_array_length(body, '$.response.tool_requests')
FROM turns GROUP BY 1
"""
"""Query of each attempt's turns. The columns without an aggregate are those of its last turn."""
_ATTEMPTS = f"""
SELECT id, rollout_id, group_id, environment, task_id, attempt, effective, outcome, stop, reward, passed, turns,
    tool_calls, prompt_tokens, output_tokens, seconds, queue_seconds, setup_seconds, agent_seconds, model_seconds,
    tool_seconds, verify_seconds, close_seconds, started_at, finished_at, fault,
    CASE WHEN fault IS NOT NULL THEN json_extract(body, '$.faults[0].phase') END,
    CASE WHEN fault IS NOT NULL THEN json_extract(body, '$.faults[0].status') END,
    CASE WHEN fault IS NOT NULL THEN substr(json_extract(body, '$.faults[0].message'), 1, {LONGEST_TEXT}) END,
    json_extract(body, '$.score.metrics.answered'),
    CASE WHEN passed IS NOT 1 THEN substr(json_extract(body, '$.score.feedback'), 1, {LONGEST_TEXT}) END,
    substr(json_extract(body, '$.answer'), 1, 1),
    CASE WHEN NOT trainable THEN json_extract(body, '$.trainable_reason') END
FROM rollouts ORDER BY seq
"""
_SILENT = (0, 0, 0, -1, 0)
"""The values of `_SPOKEN` for an attempt without any turn."""


@dataclass(frozen=True)
class RunRecord:
    """A run's facts and all its attempts."""

    info: RunInfo
    attempts: tuple[AttemptRow, ...]
    """All attempts, in the order of commits."""
    live: tuple[LiveState, ...]
    """The attempts in flight; for a run that died, those in flight at that time."""
    now: float
    """The time of the examination, as Unix time in seconds."""

    @cached_property
    def effective(self) -> tuple[AttemptRow, ...]:
        """The effective attempts, one for each rollout."""
        return tuple(attempt for attempt in self.attempts if attempt.effective)

    @cached_property
    def scored(self) -> tuple[AttemptRow, ...]:
        """The effective attempts that have a reward."""
        return tuple(attempt for attempt in self.effective if attempt.is_scored)

    @property
    def planned(self) -> int:
        """Number of planned rollouts, or of stored ones if the plan is unknown."""
        return self.info.planned or len(self.effective)

    def groups(self) -> Iterator[list[AttemptRow]]:
        """Yield the scored samples of each task."""
        found: dict[str, list[AttemptRow]] = {}
        for attempt in self.scored:
            found.setdefault(attempt.group_id, []).append(attempt)
        yield from found.values()


def read_run(directory: Path, now: float) -> RunRecord:
    """Read a run for the doctor.

    Raises:
        RunDirectoryError: the directory holds no run, or the run cannot be read.
    """
    with open_run(directory) as reader:
        info, live = reader.info, tuple(reader.live())
    source = ReadOnlySource(directory)
    try:
        with source.connect() as connection:
            # Put together here: SQLite would look through the turns once for each rollout.
            spoken = {row[0]: row[2:] for row in connection.execute(_SPOKEN)}
            attempts = tuple(
                AttemptRow._make((*row[1:], *spoken.get(row[0], _SILENT))) for row in connection.execute(_ATTEMPTS)
            )
    finally:
        source.close()
    return RunRecord(info, attempts, live, now)
