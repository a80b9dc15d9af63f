"""Which tasks a run plays worse or better than another, and one task across many runs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.analysis.compare.compared_run import ComparedRun, ComparedTask
from rollouthub.analysis.compare.task_pairs import (
    VERDICTS,
    Side,
    TaskDifference,
    Verdict,
    judged_tasks,
    task_differences,
    task_sides,
)
from rollouthub.errors import UnknownNameError

MOST_CHANGES = 20
"""Most tasks listed as worse, and as better."""
MOST_NAMES = 2_000
"""Most task ids that a mistyped one is compared with."""


@dataclass(frozen=True, slots=True)
class RunChanges:
    """What became of the first run's tasks in another run."""

    label: str
    run: str
    """The other run's directory."""
    counts: dict[Verdict, int]
    worse: tuple[TaskDifference, ...]
    """The tasks whose mean reward fell most, the significant ones first."""
    better: tuple[TaskDifference, ...]
    """The tasks whose mean reward rose most, the significant ones first."""


def run_changes(first: ComparedRun, other: ComparedRun) -> RunChanges:
    """Compare two runs task by task; p-values are adjusted for the number of tasks (Benjamini and Hochberg 1995)."""
    judged, _ = judged_tasks(task_differences(first, other))
    counts = Counter(task.verdict for task in judged)
    fallen = [task for task in judged if (task.difference or 0.0) < 0]
    risen = [task for task in judged if (task.difference or 0.0) > 0]
    fallen.sort(key=lambda task: (not task.is_real, task.difference or 0.0))
    risen.sort(key=lambda task: (not task.is_real, -(task.difference or 0.0)))
    return RunChanges(
        label=other.label,
        run=str(other.info.directory),
        counts={verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]},
        worse=tuple(fallen[:MOST_CHANGES]),
        better=tuple(risen[:MOST_CHANGES]),
    )


@dataclass(frozen=True, slots=True)
class TaskAcross:
    """One task in several runs."""

    key: ComparedTask
    sides: tuple[Side | None, ...]
    """Its samples in each run; None where the run did not play it."""


def task_across(runs: Sequence[ComparedRun], name: str) -> list[TaskAcross]:
    """The task with this id, or `ENVIRONMENT/ID`, in each run: one entry for each content that the runs gave it.

    Raises:
        UnknownNameError: no run played such a task.
    """
    found: dict[ComparedTask, None] = {}
    for run in runs:
        for attempt in run.attempts:
            if name in (attempt.task_id, f"{attempt.environment}/{attempt.task_id}"):
                found[attempt.key] = None
    if not found:
        known = dict.fromkeys(attempt.task_id for attempt in runs[0].attempts) if runs else {}
        raise UnknownNameError("task", name, list(known)[:MOST_NAMES])
    sides = [task_sides(run.only(set(found))) for run in runs]
    return [TaskAcross(key, tuple(each.get(key) for each in sides)) for key in found]
