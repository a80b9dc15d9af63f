"""Curriculum: leaves out, for some epochs, the tasks that the policy almost always or almost never passes."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from rollouthub.engine.task_band import rate_of
from rollouthub.rollout import Rollout
from rollouthub.store import open_run
from rollouthub.trainers.stream.ledger import BEFORE, PassRate
from rollouthub.trainers.stream.pending_group import TaskPass
from rollouthub.trainers.stream.supply_state import RestingTask

Task = tuple[str, str, str]
"""A task by environment name, split and task id."""


class Curriculum:
    """Leaves out tasks for some epochs when their last pass rate was outside a band."""

    def __init__(self, band: tuple[float, float] | None, rest: int) -> None:
        """`band` is the lowest and highest pass rate of tasks to keep playing; None plays all. `rest` is the number
        of epochs that a task outside the band is left out.
        """
        self._band, self._rest = band, rest
        self._outside: dict[Task, PassRate] = {}
        """The last pass rate of each task for which it is outside the band."""

    def learn(self, seen: PassRate) -> None:
        """Take a task's latest pass rate into account."""
        if self._band is None:
            return
        task = (seen.environment, seen.split, seen.task_id)
        if self._band[0] <= seen.rate <= self._band[1]:
            self._outside.pop(task, None)
        else:
            self._outside[task] = seen

    def look_at(self, ticket: TaskPass, scored: Sequence[Rollout], version: int) -> PassRate | None:
        """Measure a finished group's pass rate and take it into account; None without scored rollouts or without a
        band.
        """
        if self._band is None or not scored:
            return None
        seen = PassRate(*ticket.task, ticket.epoch, version, _rate_of(scored))
        self.learn(seen)
        return seen

    def rests(self, ticket: TaskPass) -> bool:
        """Whether a task is left out in the pass's epoch."""
        seen = self._outside.get(ticket.task)
        return seen is not None and 0 < ticket.epoch - seen.epoch <= self._rest

    def resting(self, epoch: int) -> list[RestingTask]:
        """The tasks that are left out in this epoch, or will be in the next."""
        return [
            RestingTask(*task, epoch - seen.epoch, seen.rate)
            for task, seen in self._outside.items()
            if 0 <= epoch - seen.epoch <= self._rest
        ]


def rates_of_run(directory: Path) -> list[PassRate]:
    """The pass rates of an earlier run's tasks, as if measured before the first epoch and by no policy of this supply.

    Blocks.

    Raises:
        RunDirectoryError: the directory holds no run.
    """
    with open_run(directory) as reader:
        rates = ((group, rate_of(group)) for group in reader.group_counts())
        return [
            PassRate(group.environment, group.split, group.task_id, BEFORE, BEFORE, rate)
            for group, rate in rates
            if rate is not None
        ]


def _rate_of(scored: Sequence[Rollout]) -> float:
    """The share of scores that passed; their mean reward if the verifier defines no pass."""
    scores = [record.score for record in scored if record.score is not None]
    verdicts = [score.passed for score in scores if score.passed is not None]
    return fmean(verdicts or [score.reward for score in scores])
