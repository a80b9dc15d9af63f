"""Compares two runs task by task: where the second is worse, where it is better, and where the difference is
significant.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from rollouthub.analysis.compare.compared_run import ComparedAttempt, ComparedRun, ComparedTask
from rollouthub.rollout import Outcome, OutcomeKind
from rollouthub.statistics.permutation import Chance, adjusted, permutation_test

Verdict = Literal["worse", "better", "lower", "higher", "same", "unscored"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LEVEL = 0.05
"""False discovery rate: the expected share of false positives among the differences called significant."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run's samples of a task."""

    samples: int
    rewards: tuple[float, ...]
    """The rewards of the scored samples."""
    passed: int | None
    """Number of samples that the verifier passed; None where it gave no pass or fail."""
    unscored: dict[OutcomeKind, int]
    """Kind of outcome → number of unscored samples; kinds are never merged."""

    @property
    def mean_reward(self) -> float | None:
        """Mean reward of the scored samples; None without any."""
        return math.fsum(self.rewards) / len(self.rewards) if self.rewards else None


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """One task that both runs played, with the samples of each."""

    key: ComparedTask
    first: Side
    second: Side
    chance: Chance | None = None
    """Result of a permutation test of the rewards; None where no test was made, or one side has no reward."""
    adjusted: float | None = None
    """The test's p-value, adjusted for the number of tests; None where the task was not counted as a test."""

    @property
    def difference(self) -> float | None:
        """The second run's mean reward minus the first's; None where either run has no scored sample."""
        one, other = self.first.mean_reward, self.second.mean_reward
        return None if one is None or other is None else other - one

    @property
    def is_real(self) -> bool:
        """Whether the difference is significant after the adjustment for the number of tests."""
        return self.adjusted is not None and self.adjusted <= LEVEL

    @property
    def verdict(self) -> Verdict:
        """What became of the task: `worse` and `better` are significant, `lower` and `higher` may be chance."""
        difference = self.difference
        if difference is None:
            return "unscored"
        if not difference:
            return "same"
        if self.is_real:
            return "worse" if difference < 0 else "better"
        return "lower" if difference < 0 else "higher"


def task_differences(first: ComparedRun, second: ComparedRun) -> list[TaskDifference]:
    """Return the tasks that both runs played, in the first run's order, without tests."""
    one, other = task_sides(first), task_sides(second)
    return [TaskDifference(key, side, other[key]) for key, side in one.items() if key in other]


def task_sides(run: ComparedRun) -> dict[ComparedTask, Side]:
    """Each task's samples in a run."""
    samples: dict[ComparedTask, list[ComparedAttempt]] = {}
    for attempt in run.attempts:
        if attempt.effective:
            samples.setdefault(attempt.key, []).append(attempt)
    return {key: _side(attempts) for key, attempts in samples.items()}


def _side(attempts: Sequence[ComparedAttempt]) -> Side:
    verdicts = [attempt.passed for attempt in attempts if attempt.passed is not None]
    kinds = Counter[OutcomeKind](
        Outcome(attempt.outcome).kind for attempt in attempts if attempt.outcome != Outcome.SCORED
    )
    return Side(
        samples=len(attempts),
        rewards=tuple(attempt.reward for attempt in attempts if attempt.reward is not None),
        passed=sum(verdicts) if verdicts else None,
        unscored=dict(kinds),
    )


def judged_tasks(tasks: Sequence[TaskDifference], most_seconds: float = math.inf) -> tuple[list[TaskDifference], int]:
    """Test the tasks in order, for about `most_seconds`; return them with the results, and how many were tested."""
    until, found = time.monotonic() + most_seconds, list[Chance | None]()
    for chance in chances(tasks):
        found.append(chance)
        if time.monotonic() > until:
            break
    return with_chances(tasks, [*found, *[None] * (len(tasks) - len(found))]), len(found)


def chances(tasks: Sequence[TaskDifference]) -> Iterator[Chance | None]:
    """Yield the permutation test of each task's rewards; the null hypothesis is that the samples of both runs are
    alike.
    """
    known: dict[tuple[tuple[float, ...], tuple[float, ...]], Chance | None] = {}
    for task in tasks:
        both = (tuple(sorted(task.first.rewards)), tuple(sorted(task.second.rewards)))
        if both not in known:
            known[both] = permutation_test(*both)
        yield known[both]


def with_chances(tasks: Sequence[TaskDifference], found: Sequence[Chance | None]) -> list[TaskDifference]:
    """Return the tasks with their test results, with p-values adjusted for multiple tests (Benjamini and Hochberg
    1995).

    A task whose rewards could not reach the level under any assignment to the two runs (one sample each, or all rewards
    equal) does not count as a test: that depends on the rewards alone, not on the runs they came from (Tarone 1990).
    """
    able = [place for place, chance in enumerate(found) if chance is not None and chance.least <= LEVEL]
    levels = adjusted([chance.p for place in able if (chance := found[place]) is not None])
    by_place = dict(zip(able, levels, strict=True))
    return [
        replace(task, chance=chance, adjusted=by_place.get(place))
        for place, (task, chance) in enumerate(zip(tasks, found, strict=True))
    ]
