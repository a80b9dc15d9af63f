"""Compares a run with its rescored copy, rollout by rollout."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rollouthub.rollout import Outcome
from rollouthub.statistics import RunningMeans
from rollouthub.store import AttemptSummary, RunReader

EXAMPLES = 10
_SAME = 1e-9
"""Rewards that differ by at most this count as equal."""


@dataclass(frozen=True)
class ScoreChange:
    """One rollout whose reward or outcome changed."""

    rollout_id: str
    task_id: str
    before: float | str
    """The old reward, or the old outcome where there was no reward."""
    after: float | str


@dataclass
class ScoreComparison:
    """Counts over the rollouts that both runs have."""

    before: RunningMeans = field(default_factory=RunningMeans)
    after: RunningMeans = field(default_factory=RunningMeans)
    raised: int = 0
    lowered: int = 0
    newly_scored: int = 0
    newly_unscored: int = 0
    examples: list[ScoreChange] = field(default_factory=list[ScoreChange])
    """The first few changed rollouts."""

    @property
    def changed(self) -> int:
        """Number of rollouts whose reward or outcome changed."""
        return self.raised + self.lowered + self.newly_scored + self.newly_unscored

    def add(self, old: AttemptSummary, new: AttemptSummary) -> None:
        """Count one rollout by its old and its new verdict."""
        self.before.add(old.outcome, old.reward, old.passed)
        self.after.add(new.outcome, new.reward, new.passed)
        if old.reward is None or new.reward is None:
            if old.outcome is new.outcome:
                return
            self.newly_scored += new.reward is not None
            self.newly_unscored += new.reward is None
        elif abs(old.reward - new.reward) <= _SAME:
            return
        elif new.reward > old.reward:
            self.raised += 1
        else:
            self.lowered += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(ScoreChange(old.rollout_id, old.task_id, _verdict(old), _verdict(new)))

    def as_json(self) -> dict[str, Any]:
        """The object that `hub score RUN --json` prints."""
        return {
            "rollouts": self.before.finished,
            "changed": self.changed,
            "raised": self.raised,
            "lowered": self.lowered,
            "newly_scored": self.newly_scored,
            "newly_unscored": self.newly_unscored,
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "examples": [vars(change) for change in self.examples],
        }


def _verdict(row: AttemptSummary) -> float | str:
    return row.outcome.value if row.outcome is not Outcome.SCORED or row.reward is None else row.reward


def compare(old: RunReader, new: RunReader) -> ScoreComparison:
    """Compare two runs rollout by rollout."""
    comparison = ScoreComparison()
    for one, other in _pairs(old.summaries(order_by="rollout_id"), new.summaries(order_by="rollout_id")):
        comparison.add(one, other)
    for means in (comparison.before, comparison.after):
        means.planned = old.info.planned or means.finished
    return comparison


def _pairs(
    old: Iterator[AttemptSummary], new: Iterator[AttemptSummary]
) -> Iterator[tuple[AttemptSummary, AttemptSummary]]:
    one, other = next(old, None), next(new, None)
    while one is not None and other is not None:
        if one.rollout_id == other.rollout_id:
            yield one, other
            one, other = next(old, None), next(new, None)
        elif one.rollout_id < other.rollout_id:
            one = next(old, None)
        else:
            other = next(new, None)
