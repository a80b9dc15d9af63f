"""Runs all of the doctor's checks on a run."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollouthub.analysis.run_doctor.attempt_rows import RunRecord, read_run
from rollouthub.analysis.run_doctor.ending_symptoms import answers, cut_short, status, trainable
from rollouthub.analysis.run_doctor.fault_clusters import faults, retries
from rollouthub.analysis.run_doctor.outliers import LISTED, Outlier, find_outliers, outliers
from rollouthub.analysis.run_doctor.reward_symptoms import rewards
from rollouthub.analysis.run_doctor.symptom import Symptom
from rollouthub.analysis.run_doctor.time_symptoms import bottleneck, clocks, stragglers, stuck

_CHECKS: tuple[Callable[[RunRecord], Iterator[Symptom]], ...] = (
    status,
    faults,
    retries,
    cut_short,
    answers,
    rewards,
    stuck,
    bottleneck,
    stragglers,
    clocks,
    trainable,
)
_ORDER = ("problem", "remark", "fact")


@dataclass(frozen=True)
class Examination:
    """The diagnosis of a run."""

    directory: Path
    rollouts: int
    scored: int
    symptoms: tuple[Symptom, ...]
    """Symptoms, the most severe first."""
    outliers: tuple[Outlier, ...]
    """Outlying rollouts, the furthest from the median first."""

    @property
    def has_problems(self) -> bool:
        """Whether any symptom has the weight `problem`."""
        return any(symptom.weight == "problem" for symptom in self.symptoms)

    def as_json(self) -> dict[str, Any]:
        """The object that `hub doctor RUN --json` prints."""
        return {
            "run": str(self.directory),
            "rollouts": self.rollouts,
            "scored": self.scored,
            "has_problems": self.has_problems,
            "symptoms": [symptom.as_json() for symptom in self.symptoms],
            "outliers": [
                {
                    "rollout_id": outlier.attempt.rollout_id,
                    "environment": outlier.attempt.environment,
                    "task_id": outlier.attempt.task_id,
                    "score": round(outlier.score, 2),
                    "why": outlier.why,
                    "reward": outlier.attempt.reward,
                }
                for outlier in self.outliers
            ],
        }


def examine_run(directory: Path, *, now: float | None = None) -> Examination:
    """Diagnose a run, live or ended.

    Raises:
        RunDirectoryError: the directory holds no run, or the run cannot be read.
    """
    run = read_run(directory, time.time() if now is None else now)
    found = find_outliers(run)
    symptoms = [symptom for check in _CHECKS for symptom in check(run)]
    symptoms += outliers(run, found)
    symptoms.sort(key=lambda symptom: _ORDER.index(symptom.weight))
    return Examination(directory, len(run.effective), len(run.scored), tuple(symptoms), tuple(found))


__all__ = ["LISTED", "Examination", "examine_run"]
