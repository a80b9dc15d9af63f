"""Rewards and speed over a run, in a limited number of points: one for each stretch of so many attempts."""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isnan

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.incremental import IncrementalView
from rollouthub.live.follow.mean_so_far import MeanSoFar
from rollouthub.live.follow.pace import RecentPace
from rollouthub.statistics.means import RewardMeans

MOST_POINTS = 240


@dataclass(slots=True)
class TimelinePoint(RewardMeans):
    """The samples that finished in one period."""

    at: float
    """Start of the period: Unix time in seconds, or seconds since the start of play (`PlayedSoFar`)."""
    seconds: float
    """Length of the period in seconds; 0 if its samples finished with those before."""
    finished: int = 0
    scored: int = 0
    reward_sum: float = 0.0
    judged: int = 0
    passed: int = 0
    low: float | None = None
    """Lower end of the 95 % interval of the mean reward up to the end of the period, over tasks as for the run's mean;
    None if it is unknown.
    """
    high: float | None = None
    parts: Mapping[str, "TimelinePoint"] = field(default_factory=dict[str, "TimelinePoint"])
    """Environment → its samples in the period."""


_Sums = list[float]
"""Sums over a stretch, in this order: finished, scored, reward sum, judged, passed."""


class Timeline(IncrementalView):
    """Stretches of 1, 2, 4 … attempts in the order of their records: the shortest whose number is within the limit.

    By attempts, not by time, so that a run of two seconds has a curve, and one that was paused overnight has no hole.
    """

    def __init__(self, columns: AttemptColumns) -> None:
        super().__init__(columns)
        self._clear()

    def _clear(self) -> None:
        self.width = 1
        """Number of attempts in a stretch, those that do not count included: else it would matter when they stopped
        counting.
        """
        self._sums: list[dict[int, _Sums]] = []
        """For each stretch, the code of an environment → its sums."""
        self._ends = array("d")
        """When the latest attempt up to the end of each stretch had finished, in Unix seconds."""
        self._bands: list[tuple[float | None, float | None]] = []
        self._mean = MeanSoFar()
        self.recent = RecentPace()
        self.began, self.ended = inf, -inf
        """Start of the first attempt and end of the last one, in Unix seconds; infinite without any."""
        self.lowest, self.highest = inf, -inf
        """The least and the greatest reward; infinite without any."""

    @property
    def points(self) -> list[TimelinePoint]:
        """The stretches, in order."""
        names, before = self._columns.words["environment"].vocabulary, self.began
        made: list[TimelinePoint] = []
        for sums, end, (low, high) in zip(self._sums, self._ends, self._bands, strict=True):
            at, seconds, before = before, max(0.0, end - before), end
            parts = {names[code] if code >= 0 else "": _point(at, seconds, part) for code, part in sums.items()}
            whole = (
                next(iter(sums.values()))
                if len(sums) == 1
                else [sum(each) for each in zip(*sums.values(), strict=True)]
            )
            point = _point(at, seconds, whole)
            point.low, point.high, point.parts = low, high, parts
            made.append(point)
        return made

    def _add(self, start: int, stop: int) -> None:
        columns = self._columns
        self.began = min(self.began, min(columns.numbers["started_at"][start:stop]))
        while start < stop:
            if start // self.width >= MOST_POINTS:
                self._widen()
                continue
            end = min(stop, (start // self.width + 1) * self.width)
            self._add_stretch(start // self.width, start, end)
            start = end

    def _add_stretch(self, place: int, start: int, stop: int) -> None:
        """Add rows of one stretch."""
        columns, mean = self._columns, self._mean
        if place == len(self._sums):
            self._sums.append({})
            self._ends.append(self.ended)
            self._bands.append((None, None))
        sums = self._sums[place]
        rewarded: list[tuple[int, float, int]] = []
        for code, group, counts, reward, passed in zip(
            columns.words["environment"].codes[start:stop],
            columns.words["group_id"].codes[start:stop],
            columns.effective[start:stop],
            columns.numbers["reward"][start:stop],
            columns.flags["passed"][start:stop],
            strict=True,
        ):
            part = sums.get(code)
            if part is None:
                part = sums[code] = [0, 0, 0.0, 0, 0]
            if not counts:
                continue
            part[0] += 1
            if reward == reward:
                part[1] += 1
                part[2] += reward
                rewarded.append((group, reward, passed))
            if passed >= 0:
                part[3] += 1
                part[4] += passed
        mean.extend(rewarded)
        rewards = [reward for reward in columns.numbers["reward"][start:stop] if reward == reward]
        if rewards:
            self.lowest, self.highest = min(self.lowest, *rewards), max(self.highest, *rewards)
        self.ended = max(self.ended, max(columns.numbers["finished_at"][start:stop]))
        self._ends[place], self._bands[place] = self.ended, mean.interval
        self.recent.add(columns.effective_part("finished_at", start, stop))

    def _withdraw(self, place: int) -> None:
        columns = self._columns
        reward, passed = columns.numbers["reward"][place], columns.flags["passed"][place]
        part = self._sums[place // self.width][columns.words["environment"].codes[place]]
        part[0] -= 1
        if not isnan(reward):
            part[1] -= 1
            part[2] -= reward
            self._mean.withdraw(columns.words["group_id"].codes[place], reward)
            self._bands[-1] = self._mean.interval
        if passed >= 0:
            part[3] -= 1
            part[4] -= passed
        self.recent.withdraw(columns.numbers["finished_at"][place])

    def _widen(self) -> None:
        self.width *= 2
        merged = [_merged(*pair) for pair in zip(self._sums[::2], self._sums[1::2], strict=True)]
        self._sums, self._ends, self._bands = merged, self._ends[1::2], self._bands[1::2]


def _merged(one: dict[int, _Sums], other: dict[int, _Sums]) -> dict[int, _Sums]:
    for code, part in other.items():
        mine = one.setdefault(code, [0, 0, 0.0, 0, 0])
        mine[:] = [each + more for each, more in zip(mine, part, strict=True)]
    return one


def _point(at: float, seconds: float, sums: Sequence[float]) -> TimelinePoint:
    finished, scored, rewards, judged, passed = sums
    return TimelinePoint(at, seconds, int(finished), int(scored), rewards, int(judged), int(passed))
