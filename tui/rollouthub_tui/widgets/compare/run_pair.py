"""Two runs, read and compared; the functions block, and run in a thread."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rollouthub.analysis.compare.compared_run import ComparedRun, ComparedTask
from rollouthub.analysis.compare.comparison import Comparison, compare_runs
from rollouthub.analysis.compare.task_pairs import TaskDifference, task_differences
from rollouthub.statistics import Estimate, summarise_groups
from rollouthub.statistics.permutation import Chance

_STINT, _REST = 0.004, 0.002
"""Seconds of computing at a time, and of sleep in between, as a thread that computes without pause would slow the
screen.
"""


@dataclass(frozen=True)
class Pairing:
    """The comparison of two runs with what is shown of it."""

    comparison: Comparison
    passing: tuple[Estimate | None, Estimate | None]
    """Share that passed on the common tasks, with its interval; None if no verifier gives verdicts."""
    tasks: list[TaskDifference]
    labels: tuple[str, str]
    """A label for each run beside A and B: its model, or its directory's name."""


def pair_up(first: ComparedRun, second: ComparedRun) -> Pairing:
    """Compare two runs on their common tasks.

    Raises:
        ConfigError: they have no common task.
    """
    comparison = compare_runs([replace(first, label="A"), replace(second, label="B")])
    common = first.keys & second.keys
    return Pairing(
        comparison,
        (_passing(first, common), _passing(second, common)),
        task_differences(first, second),
        (first.label, second.label),
    )


def _passing(run: ComparedRun, common: set[ComparedTask]) -> Estimate | None:
    return summarise_groups(group for _, group in run.only(common).groups()).overall.pass_estimate


def taken(found: Iterator[Chance | None], seconds: float) -> list[Chance | None]:
    """The items that an iterator gives within `seconds`, at least one if there is any."""
    now = time.monotonic()
    until, rest = now + seconds, now + _STINT
    got: list[Chance | None] = []
    for chance in found:
        got.append(chance)
        now = time.monotonic()
        if now >= until:
            break
        if now >= rest:
            time.sleep(_REST)
            rest = now + _REST + _STINT
    return got
