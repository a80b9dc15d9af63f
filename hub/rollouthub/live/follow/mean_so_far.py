"""The interval of a run's mean reward, kept up to date with each reward."""

from collections.abc import Iterable
from math import isfinite

from rollouthub.statistics.intervals import TaskMeans

_NOTHING = (0, 0.0)


class MeanSoFar:
    """The tasks' means and their spread: what `GroupSummary.mean_estimate` computes of all tasks, at any moment."""

    def __init__(self) -> None:
        self._groups: dict[int, tuple[int, float]] = {}
        """A task's code → its number of rewards and their sum."""
        self._tasks = self._scored = 0
        self._means = self._squares = 0.0
        """Sums of the tasks' means, and of their squares."""
        self._is_binary = True

    def extend(self, rewards: Iterable[tuple[int, float, int]]) -> None:
        """Add rewards, each with its task's code before it, and 1 or 0, or a negative number without a verdict, after
        it.
        """
        groups, is_binary = self._groups, self._is_binary
        count, tasks, means, squares = 0, self._tasks, self._means, self._squares
        for group, reward, passed in rewards:  # a large run has many: nothing is called for one
            scored, total = groups.get(group, _NOTHING)
            after = (total + reward) / (scored + 1)
            if scored:
                before = total / scored
                means += after - before
                squares += after * after - before * before
            else:
                tasks += 1
                means += after
                squares += after * after
            groups[group] = (scored + 1, total + reward)
            count += 1
            if is_binary and not 0 <= passed == reward:
                is_binary = False
        self._scored += count
        self._tasks, self._means, self._squares, self._is_binary = tasks, means, squares, is_binary

    def withdraw(self, group: int, reward: float) -> None:
        """Remove a reward, because a later attempt now counts."""
        scored, total = self._groups[group]
        before = total / scored
        after = (total - reward) / (scored - 1) if scored > 1 else 0.0
        self._means += after - before
        self._squares += after * after - before * before
        self._scored -= 1
        self._tasks -= scored == 1
        self._groups[group] = (scored - 1, total - reward) if scored > 1 else _NOTHING

    @property
    def interval(self) -> tuple[float | None, float | None]:
        """The 95 % interval of the mean reward, over tasks; None and None with fewer than two."""
        if self._tasks < 2 or not isfinite(self._squares):
            return None, None
        mean = self._means / self._tasks
        spread = max(0.0, self._squares - self._means * mean)
        found = TaskMeans(self._tasks, mean, spread, self._scored)
        estimate = found.estimate(all_tasks=self._tasks, is_share=self._is_binary)
        return estimate.low, estimate.high
