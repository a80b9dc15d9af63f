"""Computes the final table of a run: pass@k and avg@k from each task's counts, in one pass and constant memory."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from rollouthub.statistics.intervals import Estimate, TaskMeans
from rollouthub.statistics.means import RewardMeans, mean_of

ENOUGH = 0.9
"""The share of tasks that a k must reach for its pass@k to be a headline."""


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Counts of one task's samples. A slotted dataclass, because a run may have 100,000 of them, made from SQL rows."""

    environment: str
    task_id: str
    planned: int
    scored: int
    passed: int | None
    """Number that passed; None if the verifier gives no pass or fail (as SQL's SUM over NULLs alone)."""
    reward_sum: float
    reward_sq_sum: float
    judged: int | None = None
    """Scored samples with pass or fail (as SQL's COUNT of the column); None means all, or none if `passed` is None."""
    split: str = ""
    alike: int = 1
    """Number of tasks with these counts, where those that are alike are taken together: each has `planned` samples."""

    @property
    def verdicts(self) -> int:
        """Number of samples that passed or failed."""
        if self.passed is None:
            return 0
        return self.scored if self.judged is None else self.judged

    @property
    def mean_reward(self) -> float | None:
        """Mean reward over scored samples; None without any."""
        return mean_of(self.reward_sum, self.scored)

    @property
    def pass_rate(self) -> float | None:
        """Share that passed, of samples that passed or failed; None without any."""
        return mean_of(self.passed or 0, self.verdicts)

    @property
    def is_binary(self) -> bool:
        """Whether every reward is 1 for a pass and 0 for a failure."""
        return self.verdicts == self.scored and self.reward_sum == self.reward_sq_sum == (self.passed or 0)

    @property
    def deviation(self) -> float | None:
        """Standard deviation of the rewards (n - 1); None with fewer than two. At 0 the samples give no training
        signal.
        """
        return deviation_of(self.scored, self.reward_sum, self.reward_sq_sum)

    @property
    def is_constant(self) -> bool:
        """Whether two or more samples are scored and all rewards are equal (by the sums): no training signal."""
        return self.deviation == 0.0


def deviation_of(scored: int, reward_sum: float, reward_sq_sum: float) -> float | None:
    """Standard deviation (n - 1) of so many rewards, by their sum and that of their squares; 0 where all are equal, and
    None with fewer than two.
    """
    if scored < 2:
        return None
    spread = scored * reward_sq_sum - reward_sum**2
    if spread <= 1e-12 * scored * reward_sq_sum:
        return 0.0
    return math.sqrt(max(0.0, reward_sq_sum - reward_sum**2 / scored) / (scored - 1))


@dataclass(frozen=True, slots=True)
class AtK:
    """pass@k and avg@k over the tasks with at least k samples."""

    k: int
    pass_at_k: Estimate | None
    """Probability that at least one of k samples passes, averaged over tasks; None if no verifier gives pass or
    fail.
    """
    avg_at_k: Estimate
    """Mean reward of k samples, averaged over tasks."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Figures over the tasks of an environment, or of a whole run."""

    tasks: int
    planned: int
    """Number of planned samples."""
    scored: int
    constant_groups: int
    """Number of tasks with two or more scored samples, all of the same reward."""
    coverage: float | None
    mean_reward: float | None
    """Mean reward over scored samples."""
    pass_rate: float | None
    """Share that passed, of samples that passed or failed; None if no verifier gives pass or fail."""
    at_k: tuple[AtK, ...]

    @property
    def mean_estimate(self) -> Estimate | None:
        """The mean reward with the interval that all displays give it, which is over tasks; None without any."""
        at_one = self.at_k[0].avg_at_k if self.at_k else None
        return None if at_one is None or self.mean_reward is None else replace(at_one, value=self.mean_reward)

    @property
    def pass_estimate(self) -> Estimate | None:
        """The pass rate with its interval, which is over tasks; None without any."""
        at_one = self.at_k[0].pass_at_k if self.at_k else None
        return None if at_one is None or self.pass_rate is None else replace(at_one, value=self.pass_rate)


@dataclass(frozen=True, slots=True)
class SummaryTable:
    """The final table of a run."""

    overall: GroupSummary
    environments: dict[str, GroupSummary]
    """Environment → its figures, in the order of first occurrence."""


@lru_cache(4096)
def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased probability that at least one of k samples passes, given c passes in n: 1 - C(n - c, k) / C(n, k).

    arXiv:2107.03374, equation 1; computed in whole numbers, so exact up to the final division.

    Raises:
        ValueError: k is not from 1 to n, or c not from 0 to n. With fewer than k samples there is no unbiased estimate.
    """
    _check(n, k)
    if not 0 <= c <= n:
        raise ValueError(f"{c} of {n} samples cannot have passed")
    all_sets = math.comb(n, k)
    return (all_sets - math.comb(n - c, k)) / all_sets


def is_headline(k: int, tasks: int, every: int) -> bool:
    """Whether pass@k is a headline: of a k above 1 that nearly all tasks have samples for."""
    return k > 1 and tasks > 0 and tasks >= ENOUGH * every


def avg_at_k(n: int, reward_sum: float, k: int) -> float:
    """The expected mean reward of k out of n samples with this sum: their mean, for every k.

    Raises:
        ValueError: k is not from 1 to n.
    """
    _check(n, k)
    return reward_sum / n


def _check(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"k={k} of n={n} samples: k must be from 1 to n")


def summarise_groups(groups: Iterable[GroupCounts], ks: Sequence[int] | None = None) -> SummaryTable:
    """Compute pass@k, avg@k and means, with intervals, per environment and overall; the groups are read once.

    A task counts at k when it has k samples (scored for avg@k, with pass or fail for pass@k); other tasks are left out
    and counted as `excluded`. `ks` defaults to the powers of two up to the number of repeats. All tasks have equal
    weight.

    Raises:
        ValueError: a k is below 1, or given twice.
    """
    if ks is not None and (not ks or min(ks) < 1 or len(set(ks)) != len(ks)):
        raise ValueError(f"ks must be different whole numbers from 1, not {list(ks)!r}")
    wanted = None if ks is None else sorted(ks)
    tallies: dict[str, _Tally] = {}
    for group in groups:
        tally = tallies.get(group.environment)
        if tally is None:
            tally = tallies[group.environment] = _Tally(wanted)
        tally.add(group)
    overall = _Tally(wanted)
    for tally in tallies.values():
        overall.merge(tally)
    return SummaryTable(overall.summary(), {name: tally.summary() for name, tally in tallies.items()})


@dataclass(slots=True)
class _At:
    """Per-task values for one k."""

    passing: TaskMeans = field(default_factory=TaskMeans)
    average: TaskMeans = field(default_factory=TaskMeans)


class _Tally(RewardMeans):
    """Sums over the groups, added in one pass."""

    def __init__(self, ks: Sequence[int] | None) -> None:
        self._doubling = ks is None
        self._at: dict[int, _At] = {k: _At() for k in ks or (1,)}
        self.tasks = self.planned = self.scored = self.constant = self.judged = self.passed = 0
        self.reward_sum = 0.0
        self.is_binary = True

    def add(self, group: GroupCounts) -> None:
        """Add one task, or those that are alike."""
        tasks = group.alike
        self.tasks += tasks
        self.planned += tasks * group.planned
        self.scored += tasks * group.scored
        self.constant += tasks * group.is_constant
        self.judged += tasks * group.verdicts
        self.passed += tasks * (group.passed or 0)
        self.reward_sum += tasks * group.reward_sum
        self.is_binary = self.is_binary and group.is_binary
        if self._doubling:
            # No earlier task had samples enough for a k that only now appears, so none is missed.
            last = next(reversed(self._at))
            while (last := 2 * last) <= max(group.planned, group.scored):
                self._at[last] = _At()
        for k, at in self._at.items():
            if group.passed is not None and k <= group.verdicts:
                at.passing.add(pass_at_k(group.verdicts, group.passed, k), group.verdicts // k, tasks)
            if k <= group.scored:
                at.average.add(avg_at_k(group.scored, group.reward_sum, k), group.scored, tasks)

    def merge(self, other: "_Tally") -> None:
        """Add the tasks of another tally."""
        self.tasks += other.tasks
        self.planned += other.planned
        self.scored += other.scored
        self.constant += other.constant
        self.judged += other.judged
        self.passed += other.passed
        self.reward_sum += other.reward_sum
        self.is_binary = self.is_binary and other.is_binary
        for k, at in other._at.items():
            mine = self._at.setdefault(k, _At())
            mine.passing.merge(at.passing)
            mine.average.merge(at.average)

    def summary(self) -> GroupSummary:
        """The pass@k and avg@k figures."""
        return GroupSummary(
            tasks=self.tasks,
            planned=self.planned,
            scored=self.scored,
            constant_groups=self.constant,
            coverage=mean_of(self.scored, self.planned),
            mean_reward=self.mean_reward,
            pass_rate=self.pass_rate,
            at_k=tuple(
                AtK(
                    k,
                    at.passing.estimate(all_tasks=self.tasks, is_share=True) if self.judged else None,
                    at.average.estimate(all_tasks=self.tasks, is_share=self.is_binary),
                )
                for k, at in self._at.items()
            ),
        )
