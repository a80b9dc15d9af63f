"""The interval of a run's mean reward, kept up to date with each reward."""

from collections import defaultdict
from math import isfinite

from rollouthub.statistics.intervals import TaskMeans


class MeanSoFar:
    """The tasks' means and their spread: what `GroupSummary.mean_estimate` computes of all tasks, at any moment."""

    def __init__(self) -> None:
        self._groups = defaultdict[int, tuple[int, float]](lambda: (0, 0.0))
        """A task's code → its number of rewards and their sum."""
        self._tasks = self._scored = 0
        self._means = self._squares = 0.0
        """Sums of the tasks' means, and of their squares."""
        self._is_binary = True

    def add(self, group: int, reward: float, passed: int) -> None:
        """Add a reward; `passed` is 1 or 0, or negative without a verdict."""
        scored, total = self._groups[group]
        self._replace(group, scored, total, scored + 1, total + reward)
        self._is_binary = self._is_binary and 0 <= passed == reward

    def withdraw(self, group: int, reward: float) -> None:
        """Remove a reward, because a later attempt now counts."""
        scored, total = self._groups[group]
        self._replace(group, scored, total, scored - 1, total - reward)

    def _replace(self, group: int, scored: int, total: float, now: int, total_now: float) -> None:
        before, after = total / scored if scored else 0.0, total_now / now if now else 0.0
        self._means += after - before
        self._squares += after * after - before * before
        self._scored += now - scored
        self._tasks += (now > 0) - (scored > 0)
        self._groups[group] = (now, total_now)

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
