"""Two runs task by task: where the second does worse, where better, and where that is more than chance."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rollouthub.analysis.compare.compared_run import ComparedAttempt, ComparedRun, ComparedTask
from rollouthub.rollout import Outcome, OutcomeKind
from rollouthub.statistics.permutation import Chance, adjusted, permutation_test

LEVEL = 0.05
"""The share of false ones among the differences that are called more than chance."""


@dataclass(frozen=True, slots=True)
class Side:
    """What one run's samples of a task came to."""

    samples: int
    rewards: tuple[float, ...]
    """Of what was scored."""
    passed: int | None
    """None where no verifier drew a pass line."""
    unscored: dict[OutcomeKind, int]
    """How the others ended; kinds are never merged."""

    @property
    def mean_reward(self) -> float | None:
        """Over scored samples; None without any."""
        return sum(self.rewards) / len(self.rewards) if self.rewards else None


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """One task that both runs played."""

    key: ComparedTask
    first: Side
    second: Side
    chance: Chance | None = None
    """What a permutation test of the rewards says; None where it was not made, or one side has no reward."""
    adjusted: float | None = None
    """Its p, adjusted for the number of tasks that were tested."""

    @property
    def difference(self) -> float | None:
        """The second's mean minus the first's; None where one of them was not scored at all."""
        one, other = self.first.mean_reward, self.second.mean_reward
        return None if one is None or other is None else other - one

    @property
    def is_real(self) -> bool:
        """Whether it is more than chance, of all the tasks that were looked at."""
        return self.adjusted is not None and self.adjusted <= LEVEL


def task_differences(first: ComparedRun, second: ComparedRun) -> list[TaskDifference]:
    """The tasks that both runs played, as the first met them; not tested yet."""
    one, other = _sides(first), _sides(second)
    return [TaskDifference(key, side, other[key]) for key, side in one.items() if key in other]


def _sides(run: ComparedRun) -> dict[ComparedTask, Side]:
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


def chances(tasks: Sequence[TaskDifference]) -> Iterator[Chance | None]:
    """Test the rewards of each task, one at a time; samples of a task are taken as alike but for the run."""
    known: dict[tuple[tuple[float, ...], tuple[float, ...]], Chance | None] = {}
    for task in tasks:
        both = (tuple(sorted(task.first.rewards)), tuple(sorted(task.second.rewards)))
        if both not in known:
            known[both] = permutation_test(*both)
        yield known[both]


def with_chances(tasks: Sequence[TaskDifference], found: Sequence[Chance | None]) -> list[TaskDifference]:
    """The tasks with what their tests say, adjusted for how many there are (Benjamini and Hochberg 1995).

    A task whose rewards could not have reached the level, however they were dealt out (one sample each, or all alike),
    is not counted among the tests: what it could show depends on the rewards alone, not on whose they are (Tarone
    1990).
    """
    able = [place for place, chance in enumerate(found) if chance is not None and chance.least <= LEVEL]
    levels = adjusted([chance.p for place in able if (chance := found[place]) is not None])
    by_place = dict(zip(able, levels, strict=True))
    return [
        replace(task, chance=chance, adjusted=by_place.get(place))
        for place, (task, chance) in enumerate(zip(tasks, found, strict=True))
    ]
