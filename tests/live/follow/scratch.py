"""A run's figures computed from its rows at a stroke, to hold what is kept up to date against."""

import math
from collections import Counter
from pathlib import Path
from statistics import stdev
from typing import Any

from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.timeline import TimelinePoint
from rollouthub.statistics import summarise_groups
from rollouthub.store import AttemptSummary, open_run


def rows_of(directory: Path) -> list[AttemptSummary]:
    """Every attempt, as the store's reader tells it, in the order of first commits."""
    with open_run(directory) as run:
        # The order of ids: an attempt that was replaced has a later `seq`, but stays where it is.
        order = [(rollout.rollout_id, rollout.attempt) for rollout in run.rollouts(effective=False)]
        rows = {(row.rollout_id, row.attempt): row for row in run.summaries(effective=False)}
    return [rows[key] for key in order]


def close(one: float | None, other: float | None) -> bool:
    """Whether two sums are the same but for the order in which they were added up."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def check(feed: RunFeed, directory: Path) -> None:
    """Make sure that a feed shows exactly what the run's rows say."""
    rows = rows_of(directory)
    assert [feed.columns.summary(place) for place in range(len(feed.columns))] == rows
    counting = [row for row in rows if row.effective]
    _check_counts(feed, rows, counting)
    _check_lines(feed, counting)
    with open_run(directory) as run:
        exact = run.stage_quantiles()
    found = feed.stages.quantiles()
    assert found.keys() == exact.keys()
    for stage, values in exact.items():
        for one, other in zip(found[stage], values, strict=True):
            assert math.isclose(one, other, rel_tol=0.004, abs_tol=1e-30), stage


def _check_counts(feed: RunFeed, rows: list[AttemptSummary], counting: list[AttemptSummary]) -> None:
    counts = feed.counts
    scored = [row.reward for row in counting if row.reward is not None]
    verdicts = [row.passed for row in counting if row.passed is not None]
    assert (counts.attempts, counts.effective, counts.scored) == (len(rows), len(counting), len(scored))
    assert counts.outcomes == Counter(row.outcome for row in counting)
    assert counts.stops == Counter(row.stop.value for row in counting)
    assert counts.faults == Counter(row.fault for row in rows if row.fault is not None)
    assert (counts.judged, counts.passed) == (len(verdicts), sum(verdicts))
    assert counts.suspects == sum(row.suspect for row in counting)
    assert close(counts.mean_reward, sum(scored) / len(scored) if scored else None)
    assert counts.output_tokens == sum(row.output_tokens for row in rows)
    costs = [row.cost for row in rows if row.cost is not None]
    assert close(counts.cost, sum(costs) if costs else None)
    assert sum(found.count for found in feed.histogram.bins) == len(scored)
    for found in feed.histogram.bins:
        slack = 2e-12  # of rounding; the rewards drawn are multiples of 0.001
        inside = sum(found.low - slack <= reward < found.high - slack for reward in scored)
        assert inside == found.count
    points = feed.timeline.points
    assert sum(point.finished for point in points) == len(counting)
    assert sum(point.scored for point in points) == len(scored)
    assert close(math.fsum(point.reward_sum for point in points), sum(scored))
    for place, point in enumerate(points):
        stretch = rows[place * feed.timeline.width : (place + 1) * feed.timeline.width]
        inside = [row for row in stretch if row.effective]
        assert (point.finished, point.passed) == (len(inside), sum(bool(row.passed) for row in inside))
        for name in {row.environment for row in stretch}:
            rewards = [row.reward for row in inside if row.environment == name and row.reward is not None]
            assert (point.parts[name].scored, close(point.parts[name].reward_sum, sum(rewards))) == (len(rewards), True)
    if points:
        assert max(row.finished_at for row in rows) == feed.timeline.ended == points[-1].at + points[-1].seconds
        _check_interval(feed, points[-1])


def _check_interval(feed: RunFeed, last: TimelinePoint) -> None:
    """The interval of the mean so far is in the end the run's."""
    estimate = summarise_groups(line.counts for line in feed.groups.all()).overall.mean_estimate
    low, high = (None, None) if estimate is None else (estimate.low, estimate.high)
    assert (low is None, high is None) == (last.low is None, last.high is None)
    for one, other in ((low, last.low), (high, last.high)):
        assert one is None or other is None or math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-5)


def _check_lines(feed: RunFeed, counting: list[AttemptSummary]) -> None:
    for lines, name in ((feed.environments, "environment"), (feed.groups, "group_id")):
        by_name: dict[str, list[AttemptSummary]] = {}
        for row in counting:
            by_name.setdefault(getattr(row, name), []).append(row)
        for line in lines.all():
            members = by_name.get(line.name, [])
            rewards = [row.reward for row in members if row.reward is not None]
            assert line.counts.planned == len(members)
            assert close(line.mean_reward, sum(rewards) / len(rewards) if rewards else None)
            assert line.counts.passed == (_passed(members))
            deviation = stdev(rewards) if len(rewards) > 1 else None
            assert (line.deviation is None) == (deviation is None)
            assert math.isclose(line.deviation or 0, deviation or 0, abs_tol=1e-6)


def _passed(rows: list[AttemptSummary]) -> int | None:
    verdicts = [row.passed for row in rows if row.passed is not None]
    return sum(verdicts) if verdicts else None


def sorted_rows(rows: list[AttemptSummary], column: str, *, descending: bool) -> list[AttemptSummary]:
    """Rows in the order of a column, those without a value last; equal ones as they were committed, or the reverse."""

    def key(row: AttemptSummary) -> Any:
        return getattr(row, column)

    present = sorted((row for row in rows if key(row) is not None), key=key)
    absent = [row for row in rows if key(row) is None]
    return [*present[::-1], *absent[::-1]] if descending else [*present, *absent]
