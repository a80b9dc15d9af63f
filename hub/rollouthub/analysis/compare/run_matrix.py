"""The matrix of runs × environments: each run's figures in each environment, tested against the first run's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rollouthub.analysis.compare.compared_run import ComparedRun, ComparedTask
from rollouthub.statistics import Estimate, summarise_groups
from rollouthub.statistics.intervals import TaskMeans
from rollouthub.statistics.paired_test import paired_test
from rollouthub.statistics.permutation import Chance, holm

CellVerdict = Literal["better", "worse", "unclear", ""]
LEVEL = 0.05
"""Family-wise error rate: the probability of any false positive among all significant cells of a matrix."""


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """One run in one environment, on the tasks that all runs which played the environment have in common."""

    tasks: int
    """Number of these tasks."""
    samples: int
    scored: int
    mean_reward: Estimate | None
    """Mean over scored rollouts, with its interval; None where nothing was scored."""
    pass_rate: Estimate | None
    """Share that passed, with its interval; None if no verifier gives pass or fail."""
    pass_at_1: Estimate | None = None
    """Probability that one sample passes, averaged over tasks; None if no verifier gives pass or fail."""
    difference: Estimate | None = None
    """Mean reward minus the first run's, paired by task; None for the first run, and where that did not play."""
    chance: Chance | None = None
    """The sign-flip test of the paired differences; None where there is no difference."""
    adjusted: float | None = None
    """The test's p-value, adjusted for the number of tests in the matrix (Holm); None where the task differences could
    not be significant under any sign, which does not count as a test."""

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant after the adjustment for the number of tests."""
        return self.adjusted is not None and self.adjusted <= LEVEL

    @property
    def verdict(self) -> CellVerdict:
        """`better` or `worse` where significant, else `unclear`, which is no proof of equality; empty for no difference
        taken."""
        if self.difference is None or self.difference.value is None:
            return ""
        if not self.is_significant:
            return "unclear"
        return "better" if self.difference.value > 0 else "worse"


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One run of the matrix."""

    label: str
    """Distinct among the rows."""
    run: str
    """The run's directory."""
    cells: tuple[MatrixCell | None, ...]
    """One for each of the matrix's environments; None where the run did not play it."""
    overall: MatrixCell | None = None
    """Over the tasks of all environments that every run played; None if there is no such environment, or only one in
    the matrix, whose cell it would repeat."""

    @property
    def is_compared(self) -> bool:
        """Whether any cell has a difference to the first run."""
        return any(cell is not None and cell.verdict for cell in self.cells)


@dataclass(frozen=True, slots=True)
class RunMatrix:
    """Runs × environments."""

    environments: tuple[str, ...]
    """In the order in which the runs first played them."""
    rows: tuple[MatrixRow, ...]
    """In the order of the runs; the first is what the others are compared with."""
    tests: int
    """Number of tests that the adjustment counts."""
    left_out: tuple[str, ...]
    """Environments that several runs played without a common task."""


def run_matrix(runs: Sequence[ComparedRun]) -> RunMatrix:
    """Compare runs with the first, environment by environment and overall; no run need have played all environments.

    The cells' tests are one family, whose p-values are adjusted by Holm's method.
    """
    played = {run.label: {key.environment for key in run.keys} for run in runs}
    names = list(dict.fromkeys(attempt.environment for run in runs for attempt in run.attempts))
    common: dict[str, set[ComparedTask]] = {}
    for name in names:
        there = [run for run in runs if name in played[run.label]]
        common[name] = set[ComparedTask].intersection(
            *({key for key in run.keys if key.environment == name} for run in there)
        )
    environments = tuple(name for name in names if common[name])
    shared = [name for name in environments if all(name in played[run.label] for run in runs)]
    columns = [common[name] for name in environments]
    if len(environments) > 1 and shared:
        columns.append(set[ComparedTask]().union(*(common[name] for name in shared)))
    first = [runs[0].only(keys).task_means() if runs else {} for keys in columns]
    grid = [
        [_cell(run.only(keys), None if place == 0 else first[at]) for at, keys in enumerate(columns)]
        for place, run in enumerate(runs)
    ]
    grid, tests = _adjusted(grid)
    return RunMatrix(
        environments=environments,
        rows=tuple(
            MatrixRow(
                run.label,
                str(run.info.directory),
                tuple(cells[: len(environments)]),
                cells[-1] if len(columns) > len(environments) else None,
            )
            for run, cells in zip(runs, grid, strict=True)
        ),
        tests=tests,
        left_out=tuple(name for name in names if not common[name]),
    )


def paired_estimate(first: Mapping[ComparedTask, float], other: Mapping[ComparedTask, float]) -> Estimate:
    """The mean difference of two runs' task means, paired by task, which cancels the tasks' differences in difficulty
    (arXiv:2411.00640, 4.2).
    """
    paired = TaskMeans()
    for difference in _differences(first, other):
        paired.add(difference, 1)
    return paired.estimate(all_tasks=len(first.keys() | other.keys()), is_share=False)


def _differences(first: Mapping[ComparedTask, float], other: Mapping[ComparedTask, float]) -> list[float]:
    return [mean - first[key] for key, mean in other.items() if key in first]


def cell_of(run: ComparedRun) -> MatrixCell:
    """A run's figures over its tasks, compared with nothing."""
    overall = summarise_groups(group for _, group in run.groups()).overall
    return MatrixCell(
        tasks=overall.tasks,
        samples=overall.planned,
        scored=overall.scored,
        mean_reward=overall.mean_estimate,
        pass_rate=overall.pass_estimate,
        pass_at_1=overall.at_k[0].pass_at_k if overall.at_k else None,
    )


def _cell(run: ComparedRun, first: Mapping[ComparedTask, float] | None) -> MatrixCell | None:
    if not run.attempts:
        return None
    if not first:
        return cell_of(run)
    means = run.task_means()
    difference, chance = paired_estimate(first, means), paired_test(_differences(first, means))
    return replace(cell_of(run), difference=difference, chance=chance)


def _adjusted(grid: Sequence[Sequence[MatrixCell | None]]) -> tuple[list[list[MatrixCell | None]], int]:
    """Adjust all cells' p-values together; return the cells, and how many tests they are.

    A test that cannot reach the level under any signs of its differences does not count, as that depends on their sizes
    alone (Tarone 1990).
    """
    found = [list(row) for row in grid]
    able = [
        (row, column, cell, cell.chance.p)
        for row, cells in enumerate(found)
        for column, cell in enumerate(cells)
        if cell is not None and cell.chance is not None and cell.chance.least <= LEVEL
    ]
    for (row, column, cell, _), level in zip(able, holm([p for *_, p in able]), strict=True):
        found[row][column] = replace(cell, adjusted=level)
    return found, len(able)
