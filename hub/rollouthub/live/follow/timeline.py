"""Rewards and speed over time, in a limited number of points."""

from dataclasses import dataclass
from math import inf, isnan

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.incremental import IncrementalView
from rollouthub.live.follow.pace import RecentPace
from rollouthub.statistics.means import RewardMeans

MOST_POINTS = 240


@dataclass(slots=True)
class TimelinePoint(RewardMeans):
    """The samples that finished in one period."""

    at: float
    """Start of the period: Unix time in seconds, or seconds since the start of play (`PlayedSoFar`)."""
    seconds: float
    """Length of the period in seconds."""
    finished: int = 0
    scored: int = 0
    reward_sum: float = 0.0
    judged: int = 0
    passed: int = 0


_Bucket = list[float]
"""Sums over one period, in this order: finished, scored, reward sum, judged, passed."""


class Timeline(IncrementalView):
    """Periods of 1, 2, 4 … seconds: the shortest length at which the number of periods with a finished attempt is
    within the limit.
    """

    def __init__(self, columns: AttemptColumns) -> None:
        super().__init__(columns)
        self._clear()

    def _clear(self) -> None:
        self._buckets: dict[int, _Bucket] = {}
        self._width = 1
        self.recent = RecentPace()
        self.began, self.ended = inf, -inf
        """Start of the first attempt and end of the last one, in Unix seconds; infinite without any."""

    @property
    def points(self) -> list[TimelinePoint]:
        """The periods in which an attempt finished, in order."""
        width = self._width
        return [
            TimelinePoint(place * width, width, int(count), int(scored), rewards, int(judged), int(passed))
            for place, (count, scored, rewards, judged, passed) in sorted(self._buckets.items())
        ]

    def _add(self, start: int, stop: int) -> None:
        columns = self._columns
        finished = columns.numbers["finished_at"][start:stop]
        self.began = min(self.began, min(columns.numbers["started_at"][start:stop]))
        self.ended = max(self.ended, max(finished))
        effective = columns.effective[start:stop]
        rewards, verdicts = columns.numbers["reward"][start:stop], columns.flags["passed"][start:stop]
        buckets, width = self._buckets, self._width
        for at, counts, reward, passed in zip(finished, effective, rewards, verdicts, strict=True):
            place = int(at // width)
            bucket = buckets.get(place)
            if bucket is None:
                # Attempts that do not count open a bucket, too: else it would matter when they stopped counting.
                bucket = buckets[place] = [0, 0, 0.0, 0, 0]
                if len(buckets) > MOST_POINTS:
                    buckets, width = self._widen()
                    bucket = buckets[int(at // width)]
            if counts:
                bucket[0] += 1
                if reward == reward:
                    bucket[1] += 1
                    bucket[2] += reward
                if passed >= 0:
                    bucket[3] += 1
                    bucket[4] += passed
        self.recent.add(self._columns.effective_part("finished_at", start, stop))

    def _withdraw(self, place: int) -> None:
        numbers = self._columns.numbers
        at, reward = numbers["finished_at"][place], numbers["reward"][place]
        passed = self._columns.flags["passed"][place]
        bucket = self._buckets[int(at // self._width)]
        bucket[0] -= 1
        if not isnan(reward):
            bucket[1] -= 1
            bucket[2] -= reward
        if passed >= 0:
            bucket[3] -= 1
            bucket[4] -= passed
        self.recent.withdraw(at)

    def _widen(self) -> tuple[dict[int, _Bucket], int]:
        while len(self._buckets) > MOST_POINTS:
            self._width *= 2
            merged: dict[int, _Bucket] = {}
            for place, bucket in self._buckets.items():
                into = merged.setdefault(place // 2, [0, 0, 0.0, 0, 0])
                into[:] = [mine + more for mine, more in zip(into, bucket, strict=True)]
            self._buckets = merged
        return self._buckets, self._width
