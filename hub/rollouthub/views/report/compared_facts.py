"""Gathers the facts of a comparison, with the transcripts of the tasks that got worse."""

from collections.abc import Sequence
from pathlib import Path

from rollouthub.analysis.compare.compared_run import ComparedTask
from rollouthub.analysis.compare.comparison import Comparison, RunStanding
from rollouthub.analysis.compare.run_matrix import MatrixCell, RunMatrix
from rollouthub.analysis.compare.task_changes import RunChanges
from rollouthub.analysis.compare.task_pairs import Side, TaskDifference
from rollouthub.statistics import Estimate
from rollouthub.views.cards.embedded_pictures import EmbeddedPictures
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import (
    ComparedFigures,
    ComparisonReport,
    Figure,
    MatrixCellFigures,
    MatrixFigures,
    MatrixRowFigures,
    RunChangesFigures,
    SideFigures,
    TaskChange,
)
from rollouthub.views.report.rollout_choice import Chosen, TranscriptReader
from rollouthub.views.report.rollout_text import Transcript
from rollouthub.views.report.run_moment import one_moment

_OF_TASK = (
    "SELECT id FROM rollouts WHERE effective AND environment = ? AND split = ? AND task_id = ? "
    "AND json_extract(body, '$.task.digest') IS ? ORDER BY reward IS NULL, reward {}, id LIMIT 1"
)


def comparison_facts(found: Comparison, plainness: Plainness, transcripts: int) -> ComparisonReport:
    """The facts of a comparison; `transcripts` is how many of each run's worse tasks have both conversations."""
    left_out = [f"{count:,} tasks of {label} are left out" for label, count in found.left_out.items()]
    first = Path(found.matrix.rows[0].run) if found.matrix else None
    return ComparisonReport(
        common_tasks=found.common,
        full_tasks=found.full_tasks,
        standings=tuple(_compared(standing, plainness) for standing in found.standings),
        remarks=tuple(plainness.ours(remark) for remark in (*left_out, *found.remarks)),
        matrix=None if found.matrix is None else _matrix(found.matrix, plainness),
        changes=tuple(_changes(each, first, plainness, transcripts) for each in found.changes),
    )


def task_transcript(directory: Path, key: ComparedTask, chosen: Chosen, plainness: Plainness) -> Transcript | None:
    """A run's rollout of a task with the highest reward (`best`) or the lowest (`worst`); None if it has none.

    Raises:
        RunDirectoryError: the run does not exist, or cannot be read by this version.
        StoreError: the run cannot be read just now.
    """
    query = _OF_TASK.format("DESC" if chosen == "best" else "ASC")
    with one_moment(directory) as (_, _, connection):
        row = connection.execute(query, key).fetchone()
        if row is None:
            return None
        return TranscriptReader(connection, EmbeddedPictures(directory), plainness).read(row[0], chosen)


def _compared(standing: RunStanding, plainness: Plainness) -> ComparedFigures:
    return ComparedFigures(
        label=plainness.name(standing.label),
        scored=standing.scored,
        rollouts=standing.rollouts,
        mean_reward=_estimate(standing.mean_reward),
        pass_rate=standing.pass_rate,
        difference=_estimate(standing.difference),
        prompt_tokens=standing.prompt_tokens,
        output_tokens=standing.output_tokens,
        cost=standing.cost,
        seconds_p50=standing.seconds_p50,
        seconds_p95=standing.seconds_p95,
        projected_cost=standing.projected_cost,
        projected_seconds=standing.projected_seconds,
        kinds=standing.outcomes,
    )


def _matrix(found: RunMatrix, plainness: Plainness) -> MatrixFigures:
    return MatrixFigures(
        environments=tuple(map(plainness.name, found.environments)),
        rows=tuple(
            MatrixRowFigures(
                label=plainness.name(row.label), cells=tuple(map(_cell, row.cells)), overall=_cell(row.overall)
            )
            for row in found.rows
        ),
        tests=found.tests,
    )


def _cell(found: MatrixCell | None) -> MatrixCellFigures | None:
    if found is None:
        return None
    return MatrixCellFigures(
        tasks=found.tasks,
        samples=found.samples,
        scored=found.scored,
        mean_reward=_estimate(found.mean_reward),
        pass_rate=_estimate(found.pass_rate),
        difference=_estimate(found.difference),
        p=None if found.chance is None else found.chance.p,
        adjusted_p=found.adjusted,
        verdict=found.verdict,
    )


def _changes(found: RunChanges, first: Path | None, plainness: Plainness, transcripts: int) -> RunChangesFigures:
    def told(tasks: Sequence[TaskDifference], most: int) -> tuple[TaskChange, ...]:
        return tuple(
            _change(task, (first, Path(found.run)) if first is not None and place < most else None, plainness)
            for place, task in enumerate(tasks)
        )

    return RunChangesFigures(
        label=plainness.name(found.label),
        counts={str(verdict): count for verdict, count in found.counts.items()},
        worse=told(found.worse, transcripts),
        better=told(found.better, 0),
    )


def _change(task: TaskDifference, runs: tuple[Path, Path] | None, plainness: Plainness) -> TaskChange:
    key, pair = task.key, (None, None)
    if runs is not None:
        pair = (task_transcript(runs[0], key, "best", plainness), task_transcript(runs[1], key, "worst", plainness))
    return TaskChange(
        environment=plainness.name(key.environment),
        split=plainness.name(key.split),
        task=plainness.name(key.task_id),
        first=_side(task.first),
        second=_side(task.second),
        difference=task.difference,
        adjusted_p=task.adjusted,
        verdict=task.verdict,
        transcripts=pair,
    )


def _side(side: Side) -> SideFigures:
    return SideFigures(samples=side.samples, scored=len(side.rewards), passed=side.passed, mean_reward=side.mean_reward)


def _estimate(found: Estimate | None) -> Figure | None:
    return None if found is None else Figure(value=found.value, low=found.low, high=found.high, tasks=found.tasks)
