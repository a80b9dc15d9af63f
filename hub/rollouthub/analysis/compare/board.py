"""The rows of a leaderboard: each run in each of its environments, with what makes the figure worth believing."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from rollouthub.analysis.compare.compared_run import ComparedRun, read_compared
from rollouthub.analysis.compare.run_matrix import cell_of
from rollouthub.statistics import Estimate
from rollouthub.statistics.means import mean_of
from rollouthub.store.run_directories import receipt_of

ReceiptState = Literal["none", "unchecked"]
"""`unchecked`: a receipt lies beside the run, and nobody has compared them; `hub verify` does."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One run in one environment."""

    run: str
    """The run's directory."""
    run_id: str
    status: str
    created_at: float
    """Unix time in seconds."""
    model: str | None
    agent: str | None
    environment: str
    versions: tuple[str, ...]
    """Digests of the environment's code, bundle and dependencies, as JSON; more than one where the run was resumed
    with another."""
    task_set: str
    """Digest of the played tasks with their contents: only rows that share it answer the same question."""
    tasks: int
    planned: int
    scored: int
    coverage: float | None
    """Scored divided by planned rollouts."""
    mean_reward: Estimate | None
    """Mean over scored rollouts, with its 95 % interval over tasks; None where nothing was scored."""
    pass_rate: Estimate | None
    """Share that passed, of scored rollouts, with its 95 % interval over tasks; None if no verifier gives pass or
    fail."""
    pass_at_1: Estimate | None
    """Probability that one sample passes, averaged over tasks, so that it differs from the pass rate where some samples
    have no score; None if no verifier gives pass or fail."""
    cost: float | None
    """US dollars of all attempts in the environment; None where no call has a known price."""
    receipt: ReceiptState
    receipt_path: str | None


def board_rows(directories: Iterable[Path]) -> list[BoardRow]:
    """The rows of these runs, by environment and set of tasks, the highest mean first; one run is in memory at a time.

    Raises:
        RunDirectoryError: a directory holds no run, or one that cannot be read.
    """
    return in_order(row for directory in directories for row in rows_of(directory))


def rows_of(directory: Path) -> list[BoardRow]:
    """The rows of one run.

    Raises:
        RunDirectoryError: the directory holds no run, or one that cannot be read.
    """
    return list(_rows(read_compared(directory)))


def in_order(rows: Iterable[BoardRow]) -> list[BoardRow]:
    """Rows by environment and set of tasks, the highest mean first."""
    return sorted(rows, key=lambda row: (row.environment, row.task_set, -_value(row), row.run))


def _value(row: BoardRow) -> float:
    value = None if row.mean_reward is None else row.mean_reward.value
    return float("-inf") if value is None else value


def _rows(run: ComparedRun) -> Iterable[BoardRow]:
    info, receipt = run.info, receipt_of(run.info.directory)
    request: Any = info.resolved.get("request")
    asked = cast("dict[str, Any]", request) if isinstance(request, dict) else {}
    repeats = asked.get("repeats")
    names = list(dict.fromkeys(attempt.environment for attempt in run.attempts))
    for name in names:
        mine = run.only({key for key in run.keys if key.environment == name})
        cell = cell_of(mine)
        planned = cell.tasks * repeats if isinstance(repeats, int) else cell.samples
        if len(names) == 1 and info.planned is not None:
            planned = info.planned
        planned = max(planned, cell.samples)
        priced = [attempt.cost for attempt in mine.attempts if attempt.cost is not None]
        yield BoardRow(
            run=str(info.directory),
            run_id=info.run_id,
            status=info.status,
            created_at=info.created_at,
            model=_name(asked.get("model")),
            agent=_name(asked.get("agent")),
            environment=name,
            versions=tuple(dict.fromkeys(attempt.environment_identity for attempt in mine.attempts)),
            task_set=_digest(mine),
            tasks=cell.tasks,
            planned=planned,
            scored=cell.scored,
            coverage=mean_of(cell.scored, planned),
            mean_reward=cell.mean_reward,
            pass_rate=cell.pass_rate,
            pass_at_1=cell.pass_at_1,
            cost=sum(priced) if priced else None,
            receipt="none" if receipt is None else "unchecked",
            receipt_path=None if receipt is None else str(receipt),
        )


def _name(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _digest(run: ComparedRun) -> str:
    """SHA-256 over the sorted tasks, each as environment, split, id and digest."""
    found = hashlib.sha256()
    for key in sorted(run.keys):
        found.update("\0".join(map(str, key)).encode() + b"\1")
    return f"sha256:{found.hexdigest()}"
