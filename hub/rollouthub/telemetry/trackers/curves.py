"""From committed rollouts to points of curves: means over windows, and totals so far."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from rollouthub.rollout import Outcome, Rollout, Stop
from rollouthub.statistics import RunningMeans
from rollouthub.statistics.means import RewardMeans
from rollouthub.statistics.quantiles import quantiles
from rollouthub.telemetry.trackers.tracker import Point

STAGES = ("queue", "setup", "agent", "model", "tool", "verify", "close", "total")
KINDS = ("scored", "agent_failure", "infrastructure_fault", "verifier_fault", "cancelled")
TRUNCATED = frozenset({Stop.TURN_LIMIT, Stop.TOKEN_LIMIT, Stop.TIME_LIMIT, Stop.COST_LIMIT, Stop.CONTEXT_LIMIT})
POINTS = 200
"""About how many points a run's curves have."""
LEAST_WINDOW = 10
"""Fewest rollouts in a window; a mean over fewer is noise."""


def window_of(planned: int) -> int:
    """How many rollouts a point sums up, for a run of `planned` rollouts."""
    return max(LEAST_WINDOW, planned // POINTS)


@dataclass
class Before:
    """The totals of a resumed run before its resumption."""

    means: RunningMeans = field(default_factory=RunningMeans)
    unscored: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    """Rollout id → outcome, for rollouts whose latest attempt is unscored, so that a later attempt can replace it."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


@dataclass(slots=True)
class _Rewards(RewardMeans):
    """Sums over the scores of one environment in a window."""

    reward_sum: float = 0.0
    scored: int = 0
    passed: int = 0
    judged: int = 0


class _Window:
    """Sums since the last point."""

    def __init__(self) -> None:
        self.records = self.turns = self.tool_calls = self.output_tokens = self.truncated = self.retries = 0
        self.rewards: dict[str, _Rewards] = {}
        self.stages = [array("d") for _ in STAGES]


class Curves:
    """Sums up rollouts as they are committed, with a few additions each, in memory that grows only with the window."""

    def __init__(self, planned: int, began_at: float, before: Before | None = None) -> None:
        before = before or Before()
        self._means, self._unscored = before.means, before.unscored
        self._means.planned = planned
        self._prompt_tokens, self._output_tokens, self._cost = (
            before.prompt_tokens,
            before.output_tokens,
            before.cost,
        )
        self._size = window_of(planned)
        self._drawn, self._drawn_at, self._latest = self.step, began_at, began_at
        self._retried = 0
        self._window = _Window()

    @property
    def step(self) -> int:
        """How many rollouts have a committed record."""
        return self._means.finished

    def add(self, rollouts: Sequence[Rollout]) -> list[Point]:
        """Count committed records; returns the points that became complete."""
        points: list[Point] = []
        for rollout in rollouts:
            self._add(rollout)
            if self.step - self._drawn >= self._size:
                points.append(self._point())
        return points

    def rest(self) -> Point | None:
        """The point of an incomplete last window; None if it is empty."""
        return self._point() if self._window.records else None

    def figures(self) -> dict[str, float]:
        """The run's totals and means so far."""
        means = self._means
        found = {
            "run/mean_reward": means.mean_reward,
            "run/pass_rate": means.pass_rate,
            "run/coverage": means.coverage,
            "tokens/prompt": float(self._prompt_tokens),
            "tokens/output": float(self._output_tokens),
            "cost/dollars": self._cost or None,
            "outcomes/retried": float(self._retried),
        }
        kinds = means.kinds
        found |= {f"outcomes/{kind}": float(kinds.get(kind, 0)) for kind in KINDS}
        return {name: value for name, value in found.items() if value is not None}

    def _add(self, rollout: Rollout) -> None:
        window, score, timings = self._window, rollout.score, rollout.timings
        earlier = self._unscored.pop(rollout.rollout_id, None)
        if earlier is not None:
            self._means.outcomes[earlier] -= 1
            self._retried += 1
        if score is None:
            self._means.add(rollout.outcome)
            self._unscored[rollout.rollout_id] = rollout.outcome
        else:
            self._means.add(rollout.outcome, score.reward, score.passed)
            rewards = window.rewards.get(rollout.environment.name)
            if rewards is None:
                rewards = window.rewards[rollout.environment.name] = _Rewards()
            rewards.reward_sum += score.reward
            rewards.scored += 1
            if score.passed is not None:
                rewards.judged += 1
                rewards.passed += score.passed
            window.truncated += rollout.stop in TRUNCATED
            for call in score.judge_calls:
                self._cost += call.cost or 0.0
        for call in rollout.role_calls:
            self._cost += call.cost or 0.0
        for turn in rollout.turns:
            self._prompt_tokens += turn.usage.prompt_tokens
            window.output_tokens += turn.usage.output_tokens
            window.tool_calls += len(turn.tool_calls)
            window.retries += turn.retries
            self._cost += turn.cost or 0.0
        window.records += 1
        window.turns += len(rollout.turns)
        for seconds, name in zip(window.stages, STAGES, strict=True):
            seconds.append(getattr(timings, name))
        self._latest = max(self._latest, rollout.started_at + timings.total)

    def _point(self) -> Point:
        window, self._window = self._window, _Window()
        self._output_tokens += window.output_tokens
        values = self.figures()
        for name, rewards in window.rewards.items():
            figures = {"reward": rewards.mean_reward, "pass_rate": rewards.pass_rate}
            values |= {f"{figure}/{name}": value for figure, value in figures.items() if value is not None}
        scored = sum(rewards.scored for rewards in window.rewards.values())
        if scored:
            values["episode/truncated"] = window.truncated / scored
        for name, count in (
            ("episode/turns", window.turns),
            ("episode/tool_calls", window.tool_calls),
            ("episode/output_tokens", window.output_tokens),
            ("episode/model_retries", window.retries),
        ):
            values[name] = count / window.records
        for name, seconds in zip(STAGES, window.stages, strict=True):
            values[f"seconds/{name}/p50"], values[f"seconds/{name}/p95"] = quantiles(seconds, (0.5, 0.95))
        if self._latest > self._drawn_at:
            values["speed/rollouts_per_second"] = (self.step - self._drawn) / (self._latest - self._drawn_at)
        self._drawn, self._drawn_at = self.step, self._latest
        return Point(self.step, self._latest, values)
