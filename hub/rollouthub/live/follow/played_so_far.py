"""Figures of a run that is played in this process, updated cheaply with each committed rollout."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from statistics import median

from rollouthub.live.follow.pace import RecentPace, overall_rate, present_rate
from rollouthub.live.follow.reward_histogram import RewardBins
from rollouthub.live.follow.run_feed import RunProgress
from rollouthub.live.follow.run_figures import RunTotals
from rollouthub.live.follow.timeline import TimelinePoint
from rollouthub.rollout import Outcome, Rollout, Timings
from rollouthub.statistics import RunningMeans

MOST_POINTS = 60
LATEST = 512
"""Number of latest attempts that stage medians are computed over."""
_STAGES = ("queue", "setup", "model", "tool", "verify", "close", "total")
_Clock = Callable[[], float]


class PlayedSoFar:
    """Counts over the samples that this process finished. Samples from before a resumption count only in `done`."""

    def __init__(self, clock: _Clock = time.time) -> None:
        self.means = RunningMeans()
        self.tokens, self.prompt_tokens, self.cost = 0, 0, 0.0
        self.done_before = self.retries = 0
        self.rewards = RewardBins()
        self._clock = clock
        self._unscored: dict[str, tuple[Outcome, float]] = {}
        """Samples whose latest attempt is unscored, with its outcome and its finish as Unix time in seconds; a later
        attempt replaces it.
        """
        self._started = clock()
        self._recent = RecentPace()
        self._began, self._ended = inf, -inf
        """When the first attempt started and the last one finished."""
        self._is_over = False
        self._points: list[TimelinePoint] = []
        self._latest: deque[Timings] = deque(maxlen=LATEST)

    def start(self, planned: int, done: int) -> None:
        """Note that the run starts to play."""
        self.means.planned, self.done_before = planned, done
        self._started = self._clock()

    def end(self) -> None:
        """Note that the run has stopped playing."""
        self._is_over = True

    def add(self, rollouts: Sequence[Rollout]) -> None:
        """Count newly committed rollouts."""
        rewards: list[float] = []
        for rollout in rollouts:
            self._count(rollout)
            if rollout.score is not None:
                rewards.append(rollout.score.reward)
            for turn in rollout.turns:
                self.tokens += turn.usage.output_tokens
                self.prompt_tokens += turn.usage.prompt_tokens
                self.cost += turn.cost or 0.0
            self._latest.append(rollout.timings)
            self._began = min(self._began, rollout.started_at)
        self.rewards.add(rewards)
        self._mark(len(rollouts), rewards)

    def _count(self, rollout: Rollout) -> None:
        """Count a rollout by its latest attempt, as the store does."""
        earlier, score = self._unscored.pop(rollout.rollout_id, None), rollout.score
        finished_at = rollout.started_at + rollout.timings.total
        if earlier is not None:
            self.retries += 1
            self.means.withdraw(earlier[0])
            self._recent.withdraw(earlier[1])
        self._recent.add([finished_at])
        self._ended = max(self._ended, finished_at)
        self.means.add(rollout.outcome, score and score.reward, score and score.passed)
        if score is None:
            self._unscored[rollout.rollout_id] = rollout.outcome, finished_at

    def _mark(self, finished: int, rewards: Sequence[float]) -> None:
        """Add finished rollouts to the timeline at the current time."""
        points, at = self._points, self.seconds
        if not points:
            points.append(TimelinePoint(0.0, 1.0))
        while at >= points[-1].at + points[-1].seconds:
            if len(points) == MOST_POINTS:
                self._points = points = _halved(points)
            else:
                points.append(TimelinePoint(points[-1].at + points[-1].seconds, points[-1].seconds))
        points[-1].finished += finished
        points[-1].scored += len(rewards)
        points[-1].reward_sum += sum(rewards)

    @property
    def seconds(self) -> float:
        """Seconds since the run started to play."""
        return max(1e-9, self._clock() - self._started)

    @property
    def done(self) -> int:
        """Number of samples with a record."""
        return self.done_before + self.means.finished

    @property
    def progress(self) -> RunProgress:
        """The run's progress, equal to `RunFeed.progress` except for a resumed run, where samples from before count
        only in `done`.
        """
        finished, planned = self.means.finished, self.means.planned or None
        if self._is_over:
            seconds = max(0.0, self._ended - self._began) if finished else 0.0
            status = "finished" if planned is None or self.done >= planned else "interrupted"
            return RunProgress(status, self.done, planned, 0, overall_rate(finished, seconds), None, seconds)
        rate = present_rate(self._recent, self._clock(), self.seconds)
        eta = max(0, planned - self.done) / rate if rate and planned is not None else None
        return RunProgress("running", self.done, planned, 0, rate, eta, self.seconds)

    @property
    def figures(self) -> RunTotals:
        """The run's headline figures; coverage and means are over the samples that this process played."""
        means = self.means
        return RunTotals(
            mean_reward=means.mean_reward,
            strict=means.mean_reward_strict,
            pass_rate=means.pass_rate,
            scored=means.scored,
            done=means.finished,
            planned=max(0, means.planned - self.done_before) or None,
            attempts=means.finished + self.retries,
            turns=None,
            tool_calls=None,
            prompt_tokens=None,
            output_tokens=self.tokens,
            cost=self.cost or None,
        )

    @property
    def points(self) -> Sequence[TimelinePoint]:
        """Figures over time, in periods of equal length."""
        return self._points

    def medians(self) -> dict[str, float]:
        """Stage → median seconds, over the latest attempts."""
        latest = list(self._latest)
        if not latest:
            return {}
        return {stage: median(getattr(timings, stage) for timings in latest) for stage in _STAGES}


def _halved(points: Sequence[TimelinePoint]) -> list[TimelinePoint]:
    """Merge each pair of neighbouring periods into one."""
    return [
        TimelinePoint(
            one.at, one.seconds * 2, one.finished + other.finished, one.scored + other.scored,
            one.reward_sum + other.reward_sum,
        )
        for one, other in zip(points[::2], points[1::2], strict=True)
    ]  # fmt: skip
