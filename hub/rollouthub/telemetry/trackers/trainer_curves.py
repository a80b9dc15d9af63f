"""Compares a trainer's steps with the rollouts of a run: the policy's rewards beside the trainer's loss."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rollouthub.statistics.means import RewardMeans
from rollouthub.store.read_only_source import ReadOnlySource
from rollouthub.telemetry.trackers.trainer_logs import TrainerStep

Alignment = Literal["policy_version", "time", "none"]
_QUERY = """
SELECT reward, passed, finished_at, json_extract(body, '$.policy_version_min') FROM rollouts
WHERE effective AND reward IS NOT NULL
"""


@dataclass
class TrainerStepRow(RewardMeans):
    """One step of the trainer, and the rollouts that belong to it."""

    step: TrainerStep
    scored: int = 0
    reward_sum: float = 0.0
    judged: int = 0
    passed: int = 0

    def as_json(self) -> dict[str, Any]:
        """The step as plain JSON fields."""
        return {
            "step": self.step.step,
            "seconds": self.step.seconds,
            **self.step.values,
            "scored": self.scored,
            "mean_reward": self.mean_reward,
            "pass_rate": self.pass_rate,
        }


@dataclass(frozen=True)
class Beside:
    """A run and its trainer's steps, aligned."""

    alignment: Alignment
    """How rollouts were assigned to steps: by their policy version, else by the time they ended, else not at all."""
    rows: tuple[TrainerStepRow, ...]

    def as_json(self) -> dict[str, Any]:
        """The JSON object that `hub show RUN --trainer-logs DIR --json` prints."""
        return {"alignment": self.alignment, "steps": [row.as_json() for row in self.rows]}


def put_beside(directory: Path, steps: Sequence[TrainerStep]) -> Beside:
    """Assign each scored rollout to a trainer's step: the first one at or after its policy version, or its end time.

    Raises:
        RunDirectoryError: the directory holds no readable run.
    """
    rollouts = list(_rollouts(directory))
    rows = tuple(TrainerStepRow(step) for step in steps)
    if rollouts and all(version is not None for *_, version in rollouts):
        alignment: Alignment = "policy_version"
        keys: list[float] = [float(row.step.step) for row in rows]
        places = [float(version) for *_, version in rollouts if version is not None]
    elif all(row.step.seconds is not None for row in rows):
        alignment = "time"
        keys = [row.step.seconds or 0.0 for row in rows]
        places = [finished for _, _, finished, _ in rollouts]
    else:
        return Beside("none", rows)
    for (reward, passed, _, _), place in zip(rollouts, places, strict=True):
        index = bisect_left(keys, place)
        if index == len(rows):
            continue  # played after the trainer's last step
        row = rows[index]
        row.scored += 1
        row.reward_sum += reward
        if passed is not None:
            row.judged += 1
            row.passed += passed
    return Beside(alignment, rows)


def _rollouts(directory: Path) -> Iterator[tuple[float, int | None, float, int | None]]:
    source = ReadOnlySource(directory)
    try:
        with source.connect() as connection:
            yield from connection.execute(_QUERY)
    finally:
        source.close()
