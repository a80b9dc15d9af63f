"""Means of rewards over scored rollouts, with their coverage, and with agent failures counted at the floor."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import JsonValue

from rollouthub.rollout import Outcome, OutcomeKind


def mean_of(total: float, count: int) -> float | None:
    """Divide a sum by its count; None if the count is 0, because the mean is then unknown, not zero."""
    return total / count if count else None


class RewardSums(Protocol):
    """The sums from which means of rewards are computed."""

    @property
    def scored(self) -> int:
        """Number of samples that have a reward."""
        ...

    @property
    def reward_sum(self) -> float: ...

    @property
    def judged(self) -> int:
        """Number of scored samples for which the verifier gave pass or fail."""
        ...

    @property
    def passed(self) -> int: ...


class RewardMeans:
    """Means computed from `RewardSums`."""

    __slots__ = ()

    @property
    def mean_reward(self: RewardSums) -> float | None:
        """Mean reward over scored samples; None without any."""
        return mean_of(self.reward_sum, self.scored)

    @property
    def pass_rate(self: RewardSums) -> float | None:
        """Share that passed, of the scored samples for which the verifier gave pass or fail; None without any."""
        return mean_of(self.passed, self.judged)


@dataclass
class RunningMeans(RewardMeans):
    """Counts and sums over effective attempts, in constant memory; two workers' counts can be merged.

    For a resumed run, create it from the store's sums and go on adding.
    """

    planned: int = 0
    """Number of planned samples."""
    outcomes: Counter[Outcome] = field(default_factory=Counter[Outcome])
    reward_sum: float = 0.0
    judged: int = 0
    """Number of scored samples for which the verifier gave pass or fail."""
    passed: int = 0
    floor: float = 0.0
    """The reward that an agent failure counts as, in `mean_reward_strict`."""

    def add(self, outcome: Outcome, reward: float | None = None, passed: bool | None = None) -> None:
        """Count one finished sample, by its effective attempt.

        Raises:
            ValueError: a scored rollout has no finite reward, or an unscored one has a reward.
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
        """Remove an attempt that was added, because a later attempt replaces it."""
        self.outcomes[outcome] -= 1
        self.reward_sum -= reward or 0.0
        if passed is not None:
            self.judged -= 1
            self.passed -= passed

    def merge(self, other: "RunningMeans") -> None:
        """Add the counts of another `RunningMeans`.

        Raises:
            ValueError: the two have different floors.
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
        """Number of samples that ended, with any outcome."""
        return self.outcomes.total()

    @property
    def scored(self) -> int:
        """Number of samples that have a reward."""
        return self.outcomes[Outcome.SCORED]

    @property
    def kinds(self) -> dict[OutcomeKind, int]:
        """Kind of outcome → number of samples; kinds that did not occur are left out."""
        counts: dict[OutcomeKind, int] = {}
        for outcome, count in self.outcomes.items():
            if count:
                counts[outcome.kind] = counts.get(outcome.kind, 0) + count
        return counts

    @property
    def coverage(self) -> float | None:
        """Scored samples over planned ones; None if nothing was planned."""
        return mean_of(self.scored, self.planned)

    @property
    def mean_reward_strict(self) -> float | None:
        """Mean reward over scored rollouts and agent failures, the latter at the floor; None without any.

        Infrastructure failures (model, environment, sandbox, verifier) and cancelled rollouts say nothing about the
        agent and are left out.
        """
        failures = self.kinds.get("agent_failure", 0)
        count = self.scored + failures
        return mean_of(self.reward_sum + self.floor * failures, count)

    def to_json(self) -> dict[str, JsonValue]:
        """The figures, under the names that `hub run --json` prints."""
        return {
            "planned": self.planned,
            "scored": self.scored,
            "coverage": self.coverage,
            "mean_reward": self.mean_reward,
            "mean_reward_strict": self.mean_reward_strict,
            "pass_rate": self.pass_rate,
            "outcomes": {outcome.value: self.outcomes[outcome] for outcome in Outcome if self.outcomes[outcome]},
        }
