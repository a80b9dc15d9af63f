"""Counts the results of a batch; memory grows with the number of tasks, not of lines."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rollouthub.analysis.scoring.completion_line import BAD_ROW
from rollouthub.rollout import Outcome
from rollouthub.statistics import GroupCounts, RunningMeans, summarise_groups

MOST_GROUPS = 200_000
"""Maximum number of tasks with figures of their own; with more, all figures per task are left out."""


class _TaskCounts:
    """Counts over the samples of one task."""

    __slots__ = ("judged", "passed", "planned", "reward_sq_sum", "reward_sum", "scored")

    def __init__(self) -> None:
        self.planned = self.scored = self.judged = self.passed = 0
        self.reward_sum = self.reward_sq_sum = 0.0


@dataclass
class BatchTally:
    """Counts of the lines written."""

    environment: str
    means: RunningMeans = field(default_factory=RunningMeans)
    bad_rows: int = 0
    resumed: int = 0
    """Lines that an earlier start of the batch had written."""
    _groups: dict[str, _TaskCounts] | None = field(default_factory=dict[str, _TaskCounts])

    @property
    def lines(self) -> int:
        """Lines written, including bad ones."""
        return self.means.finished + self.bad_rows

    @property
    def is_complete(self) -> bool:
        """Whether every line has a score."""
        return self.means.scored == self.lines

    def add(
        self, task_id: str, outcome: Outcome | None, reward: float | None = None, passed: bool | None = None
    ) -> None:
        """Count a line. The outcome None marks a bad line."""
        if outcome is None:
            self.bad_rows += 1
            return
        self.means.add(outcome, reward, passed)
        if self._groups is None:
            return
        group = self._groups.get(task_id)
        if group is None:
            if len(self._groups) >= MOST_GROUPS:
                self._groups = None
                return
            group = self._groups[task_id] = _TaskCounts()
        group.planned += 1
        if reward is not None:
            group.scored += 1
            group.reward_sum += reward
            group.reward_sq_sum += reward * reward
            if passed is not None:
                group.judged += 1
                group.passed += passed

    def groups(self) -> Iterator[GroupCounts]:
        """Yield the counts of each task; nothing once there were more than `MOST_GROUPS` tasks."""
        for task_id, group in (self._groups or {}).items():
            yield GroupCounts(
                environment=self.environment,
                task_id=task_id,
                planned=group.planned,
                scored=group.scored,
                passed=group.passed if group.judged else None,
                reward_sum=group.reward_sum,
                reward_sq_sum=group.reward_sq_sum,
                judged=group.judged,
            )

    def as_json(self) -> dict[str, Any]:
        """The figures, under the same names as in `hub run --json`."""
        means, lines = self.means, self.lines
        outcomes: dict[str, Any] = {
            outcome.value: means.outcomes[outcome] for outcome in Outcome if means.outcomes[outcome]
        }
        if self.bad_rows:
            outcomes[BAD_ROW] = self.bad_rows
        overall = summarise_groups(self.groups()).overall
        return {
            "lines": lines,
            "resumed": self.resumed,
            "scored": means.scored,
            "coverage": means.scored / lines if lines else None,
            "mean_reward": means.mean_reward,
            "pass_rate": means.pass_rate,
            "outcomes": outcomes,
            "bad_rows": self.bad_rows,
            "tasks": overall.tasks if self._groups is not None else None,
            "at_k": [
                {"k": at.k, "pass_at_k": _estimate(at.pass_at_k), "avg_at_k": _estimate(at.avg_at_k)}
                for at in (overall.at_k if self._groups else ())
            ],
        }


def _estimate(estimate: Any) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "tasks": estimate.tasks}
