"""The figures of a run, read row by row in memory that does not grow with the run."""

import heapq
import math
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rollouthub.rollout import Outcome
from rollouthub.statistics import AtK as TasksAtK
from rollouthub.statistics import Estimate, GroupCounts, GroupSummary, summarise_groups
from rollouthub.statistics.intervals import TaskMeans
from rollouthub.statistics.means import mean_of
from rollouthub.statistics.quantiles import quantiles as ranked
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import AtKFigures, Bar, Figure, GroupFigures, Quantiles, ReportFigures

MOST_GROUPS = 60
"""Most tasks in the table of tasks."""
BARS = 20
MOST_BARS = 1_000
"""Most bars, of rewards too far apart for bars of equal width."""
MOST_VALUES = 12
"""Most different rewards that get a bar each; with more, each bar covers a range."""
_GROUPS = """
SELECT environment, split, task_id, count(*), count(reward), sum(passed), total(reward), total(reward * reward),
    count(passed), sum(outcome = 'agent_failed')
FROM rollouts WHERE effective GROUP BY environment, split, task_id, group_id ORDER BY min(id)
"""
_OUTCOMES = """
SELECT environment, outcome, stop, count(*) FROM rollouts WHERE effective GROUP BY environment, outcome, stop
ORDER BY 4 DESC, 1, 2, 3
"""


@dataclass
class Strict:
    """Sums for the mean reward in which agent failures count as 0, and the numbers of verdicts."""

    means: TaskMeans = field(default_factory=TaskMeans)
    tasks: int = 0
    reward_sum: float = 0.0
    samples: int = 0
    judged: int = 0
    passed: int = 0
    is_binary: bool = True

    def add(self, group: GroupCounts, failures: int) -> None:
        """Add one task's rewards, and its number of agent failures."""
        count = group.scored + failures
        self.tasks += 1
        self.reward_sum += group.reward_sum
        self.samples += count
        self.judged, self.passed = self.judged + group.verdicts, self.passed + (group.passed or 0)
        self.is_binary = self.is_binary and group.is_binary
        if count:
            self.means.add(group.reward_sum / count, count)

    def figure(self) -> Figure:
        """The mean over rollouts, with an interval computed over tasks."""
        found = self.means.estimate(all_tasks=self.tasks, is_share=self.is_binary)
        return _figure(mean_of(self.reward_sum, self.samples), found)


@dataclass
class Tables:
    """The figures and tables that one pass over the groups yields."""

    overall: ReportFigures
    environments: tuple[ReportFigures, ...]
    at_k: tuple[AtKFigures, ...]
    groups: tuple[GroupFigures, ...]
    groups_left_out: int
    outcomes: dict[str, int]
    stops: dict[str, int]


def tabulate(connection: sqlite3.Connection, repeats: int, planned: int | None, plainness: Plainness) -> Tables:
    """Compute means, intervals, pass@k, and the tables of tasks and outcomes."""
    strict: dict[str, Strict] = {}
    everything, kept = Strict(), _Kept()

    def groups() -> Iterator[GroupCounts]:
        for environment, split, task, samples, scored, passed, total, squares, judged, failed in connection.execute(
            _GROUPS
        ):
            counts = GroupCounts(
                environment, task, max(repeats, samples), scored, passed, total, squares, judged=judged
            )
            strict.setdefault(environment, Strict()).add(counts, failed)
            everything.add(counts, failed)
            kept.offer(counts, split, samples)
            yield counts

    summary = summarise_groups(groups())
    outcomes, stops, endings = _endings(connection)
    every = list(endings.values())
    together = {
        kind: sum(kinds.get(kind, 0) for kinds in every) for kind in {name for kinds in every for name in kinds}
    }
    name = plainness.name
    return Tables(
        overall=_figures("all", summary.overall, everything, together, planned),
        environments=tuple(
            _figures(name(which), found, strict[which], endings.get(which, {}), None)
            for which, found in summary.environments.items()
        ),
        at_k=tuple(map(_at_k, summary.overall.at_k)) if summary.overall.scored else (),
        groups=tuple(_group(*each, plainness) for each in kept.groups()),
        groups_left_out=max(0, kept.seen - len(kept.groups())),
        outcomes=outcomes,
        stops=stops,
    )


class _Kept:
    """Collects the tasks with the lowest mean and those with the largest deviation while groups are read."""

    def __init__(self) -> None:
        self.seen = 0
        self._hardest: list[tuple[float, int, tuple[GroupCounts, str, int]]] = []
        self._widest: list[tuple[float, int, tuple[GroupCounts, str, int]]] = []

    def offer(self, counts: GroupCounts, split: str, samples: int) -> None:
        """Add a task; it is dropped again if others are more extreme."""
        self.seen += 1
        entry = (counts, split, samples)
        _push(self._hardest, (-_mean_key(counts), -self.seen, entry), MOST_GROUPS // 2)
        _push(self._widest, (counts.deviation or 0.0, -self.seen, entry), MOST_GROUPS // 2)

    def groups(self) -> list[tuple[GroupCounts, str, int]]:
        """The collected tasks without duplicates, the lowest mean first."""
        found = {place: (value, entry) for value, place, entry in (*self._widest, *self._hardest)}
        ordered = sorted(found.items(), key=lambda item: (_mean_key(item[1][1][0]), -item[0]))
        return [entry for _, (_, entry) in ordered]


def _mean_key(counts: GroupCounts) -> float:
    mean = counts.mean_reward
    return -math.inf if mean is None else mean


def _push(
    heap: list[tuple[float, int, tuple[GroupCounts, str, int]]],
    entry: tuple[float, int, tuple[GroupCounts, str, int]],
    most: int,
) -> None:
    # The second part differs always, so that the third is never compared.
    if len(heap) < most:
        heapq.heappush(heap, entry)
    else:
        heapq.heappushpop(heap, entry)


def _group(counts: GroupCounts, split: str, samples: int, plainness: Plainness) -> GroupFigures:
    return GroupFigures(
        environment=plainness.name(counts.environment),
        split=plainness.name(split),
        task=plainness.name(counts.task_id),
        samples=samples,
        scored=counts.scored,
        passed=counts.passed,
        mean_reward=counts.mean_reward,
        deviation=counts.deviation,
    )


def _endings(connection: sqlite3.Connection) -> tuple[dict[str, int], dict[str, int], dict[str, dict[str, int]]]:
    """Counts by outcome, counts by stop reason, and counts by kind of outcome for each environment."""
    outcomes: dict[str, int] = {}
    stops: dict[str, int] = {}
    kinds: dict[str, dict[str, int]] = {}
    for environment, outcome, stop, count in connection.execute(_OUTCOMES):
        outcomes[outcome] = outcomes.get(outcome, 0) + count
        stops[stop] = stops.get(stop, 0) + count
        kind, mine = Outcome(outcome).kind, kinds.setdefault(environment, {})
        mine[kind] = mine.get(kind, 0) + count
    return outcomes, stops, kinds


def _figures(
    name: str, found: GroupSummary, strict: Strict, kinds: dict[str, int], planned: int | None
) -> ReportFigures:
    count = planned if planned is not None else found.planned
    return ReportFigures(
        name=name,
        tasks=found.tasks,
        planned=count,
        played=sum(kinds.values()),
        scored=found.scored,
        coverage=found.scored / count if count else None,
        mean_reward=_figure(found.mean_reward, found.mean_estimate),
        mean_reward_strict=strict.figure(),
        pass_rate=None if found.pass_rate is None else _figure(found.pass_rate, found.pass_estimate),
        judged=strict.judged,
        passed=strict.passed,
        constant_groups=found.constant_groups,
        kinds=kinds,
    )


def _at_k(at: TasksAtK) -> AtKFigures:
    passing = None if at.pass_at_k is None else _figure(at.pass_at_k.value, at.pass_at_k)
    return AtKFigures(k=at.k, pass_at_k=passing, avg_at_k=_figure(at.avg_at_k.value, at.avg_at_k))


def _figure(value: float | None, found: Estimate | None) -> Figure:
    if found is None:
        return Figure(value=value)
    return Figure(value=value, low=found.low, high=found.high, tasks=found.tasks)


def distribution(rewards: Iterable[float]) -> tuple[Bar, ...]:
    """The distribution of rewards: one bar per value if there are few values, else bars of equal width."""
    counted = Counter(rewards)
    if not counted:
        return ()
    low, high = min(counted), max(counted)
    if len(counted) <= MOST_VALUES or not math.isfinite(high - low):
        return tuple(Bar(low=value, high=value, count=counted[value]) for value in sorted(counted)[:MOST_BARS])
    width = (high - low) / BARS
    counts = [0] * BARS
    for value, count in counted.items():
        counts[min(BARS - 1, int((value - low) / width))] += count
    return tuple(Bar(low=low + i * width, high=low + (i + 1) * width, count=count) for i, count in enumerate(counts))


def quantiles(connection: sqlite3.Connection, columns: Sequence[str]) -> dict[str, Quantiles]:
    """p50, p95 and p99 (nearest rank) of each column over effective attempts; empty if there are none."""
    values = [array("d") for _ in columns]
    for row in connection.execute(f"SELECT {', '.join(columns)} FROM rollouts WHERE effective"):
        for column, value in zip(values, row, strict=True):
            column.append(value)
    ranks = {name: ranked(column) for name, column in zip(columns, values, strict=True) if column}
    return {name: Quantiles(p50=p50, p95=p95, p99=p99) for name, (p50, p95, p99) in ranks.items()}
