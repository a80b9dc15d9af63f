"""Means that hide nothing: over what was scored, how much that is, and with agent failures at the floor."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from rollouthub.rollout import Outcome, OutcomeKind


def mean_of(total: float, count: int) -> float | None:
    """A sum over its count; None over nothing, which is unknown and never zero."""
    return total / count if count else None


class RewardSums(Protocol):
    """What the means of rewards are made of."""

    @property
    def scored(self) -> int:
        """Samples that have a reward."""
        ...

    @property
    def reward_sum(self) -> float: ...

    @property
    def judged(self) -> int:
        """Scored samples whose verifier drew a pass line."""
        ...

    @property
    def passed(self) -> int: ...


class RewardMeans:
    """The means of what holds `RewardSums`."""

    __slots__ = ()

    @property
    def mean_reward(self: RewardSums) -> float | None:
        """Over scored samples alone; None without any."""
        return mean_of(self.reward_sum, self.scored)

    @property
    def pass_rate(self: RewardSums) -> float | None:
        """Over scored samples whose verifier drew a pass line; None without any."""
        return mean_of(self.passed, self.judged)


@dataclass
class RunningMeans(RewardMeans):
    """Counts and sums over effective attempts, in constant memory; those of two workers merge by addition.

    Resuming, make it from the store's sums and go on adding.
    """

    planned: int = 0
    """Samples the run is to play."""
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    reward_sum: float = 0.0
    judged: int = 0
    """Scored rollouts whose verifier drew a pass line."""
    passed: int = 0
    floor: float = 0.0
    """The reward an agent failure counts with in `mean_reward_strict`."""

    def add(self, outcome: Outcome, reward: float | None = None, passed: bool | None = None) -> None:
        """Count one finished sample, by its effective attempt.

        Raises:
            ValueError: a scored rollout without a finite reward, or an unscored one with any.
        """
        if outcome is Outcome.SCORED:
            if reward is None or not math.isfinite(reward):
                raise ValueError(f"a scored rollout has a finite reward, not {reward!r}")
            self.reward_sum += reward
            if passed is not None:
                self.judged += 1
                self.passed += passed
        elif reward is not None or passed is not None:
            raise ValueError(f"a rollout that ended {outcome.value!r} has no reward, but {reward!r} was given")
        self.outcomes[outcome] += 1

    def withdraw(self, outcome: Outcome, reward: float | None = None, passed: bool | None = None) -> None:
        """Count a sample no more by the attempt that was added, for a later one takes its place."""
        self.outcomes[outcome] -= 1
        self.reward_sum -= reward or 0.0
        if passed is not None:
            self.judged -= 1
            self.passed -= passed

    def merge(self, other: "RunningMeans") -> None:
        """Take in another's counts.

        Raises:
            ValueError: the two put agent failures at different floors.
        """
        if other.floor != self.floor:
            raise ValueError(f"means with floors {self.floor!r} and {other.floor!r} do not add up")
        self.planned += other.planned
        self.outcomes.update(other.outcomes)
        self.reward_sum += other.reward_sum
        self.judged += other.judged
        self.passed += other.passed

    @property
    def finished(self) -> int:
        """Samples that ended, however they did."""
        return self.outcomes.total()

    @property
    def scored(self) -> int:
        """Samples that have a reward."""
        return self.outcomes[Outcome.SCORED]

    @property
    def kinds(self) -> dict[OutcomeKind, int]:
        """How many ended in each kind of outcome; kinds that did not occur are left out."""
        counts: dict[OutcomeKind, int] = {}
        for outcome, count in self.outcomes.items():
            if count:
                counts[outcome.kind] = counts.get(outcome.kind, 0) + count
        return counts

    @property
    def coverage(self) -> float | None:
        """Scored over planned; None when nothing was planned."""
        return mean_of(self.scored, self.planned)

    @property
    def mean_reward_strict(self) -> float | None:
        """Over scored rollouts and agent failures, these at the floor.

        What broke on our side (model, environment, sandbox, verifier) or was cancelled says nothing of the agent and is
        left out. None when nothing is left.
        """
        failures = self.kinds.get("agent_failure", 0)
        count = self.scored + failures
        return mean_of(self.reward_sum + self.floor * failures, count)

    def to_json(self) -> dict[str, JsonValue]:
        """The figures, under the names `hub run --json` prints."""
        return {
            "planned": self.planned,
            "scored": self.scored,
            "coverage": self.coverage,
            "mean_reward": self.mean_reward,
            "mean_reward_strict": self.mean_reward_strict,
            "pass_rate": self.pass_rate,
            "outcomes": {outcome.value: self.outcomes[outcome] for outcome in Outcome if self.outcomes[outcome]},
        }
