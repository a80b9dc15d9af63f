"""A run as the doctor reads it: every attempt in one row of plain values, read in two passes."""

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
    """One attempt. Cheaper than the record it stands for: a run has tens of thousands."""

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
    """The verifier's metric of this name, where it has one: whether it found an answer."""
    feedback: str | None
    """The beginning of what the verifier said; None where it passed."""
    answer: str | None
    untrainable: str | None
    retries: int
    """Failed tries of its model calls."""
    cut: int
    """Responses that the token limit cut off."""
    tool_errors: int
    """Turns with a tool call that told the model of an error."""
    last_length: int
    """Characters of its last response; -1 without any."""
    last_requests: int
    """Tool calls its last response asked for."""

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
"""The columns without a sum are those of an attempt's last turn."""
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
"""What an attempt without any turn has said."""


@dataclass(frozen=True)
class RunRecord:
    """What a run holds."""

    info: RunInfo
    attempts: tuple[AttemptRow, ...]
    """In the order they were committed."""
    live: tuple[LiveState, ...]
    """In flight; of a run that died, those that were."""
    now: float
    """Seconds since the epoch."""

    @cached_property
    def effective(self) -> tuple[AttemptRow, ...]:
        """The attempts that count, one for each rollout."""
        return tuple(attempt for attempt in self.attempts if attempt.effective)

    @cached_property
    def scored(self) -> tuple[AttemptRow, ...]:
        """The attempts that count and have a reward."""
        return tuple(attempt for attempt in self.effective if attempt.is_scored)

    @property
    def planned(self) -> int:
        """Rollouts planned, or kept where that is not known."""
        return self.info.planned or len(self.effective)

    def groups(self) -> Iterator[list[AttemptRow]]:
        """The scored samples of each task."""
        found: dict[str, list[AttemptRow]] = {}
        for attempt in self.scored:
            found.setdefault(attempt.group_id, []).append(attempt)
        yield from found.values()


def read_run(directory: Path, now: float) -> RunRecord:
    """Read a run.

    Raises:
        RunDirectoryError: there is none, or none that can be read.
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
