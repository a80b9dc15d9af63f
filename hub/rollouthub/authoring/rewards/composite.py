"""Composite rewards: named parts, added by weight or multiplied, without normalisation."""

from collections.abc import Mapping
from math import prod
from typing import Any

from rollouthub.authoring.rewards.reward_function import RewardFunction, apply, finite
from rollouthub.score import Component, Score, SpanReward, Submission
from rollouthub.task import Task

_ROUNDING = 1e-9


def composite(
    values: Mapping[str, float],
    weights: Mapping[str, float],
    *,
    pass_at: float | None = None,
    passed: bool | None = None,
    feedback: str | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Score:
    """The weighted sum of named parts, each kept in the score.

        composite({"correct": 1.0, "format": 0.5, "tokens": 210}, {"correct": 1.0, "format": 0.2, "tokens": -0.001})

    A negative weight makes its part a penalty; a part of weight 0 is recorded and does not count. The weights need not
    add up to 1. `pass_at` is the reward from which the task counts as solved, with a tolerance for rounding (0.1 + 0.2
    reaches 0.3); if another rule decides, give `passed`; with neither, the score has no pass mark.

    Raises:
        ValueError: names without a weight or weights without a value, a number that is not finite, all weights zero,
            or both `pass_at` and `passed`.
    """
    check_weights(weights)
    _check_same_names(values, weights, "value")
    if pass_at is not None and passed is not None:
        raise ValueError("give either pass_at or passed: two rules for passing could contradict each other")
    components = {
        name: Component(value=finite(values[name], f"value {name!r}"), weight=float(weight))
        for name, weight in weights.items()
    }
    # Plain summation in the components' order, as `Score` checks it.
    reward = finite(sum(part.value * part.weight for part in components.values()), "the weighted sum")
    if pass_at is not None:
        passed = _reaches(reward, pass_at)
    return Score(reward=reward, passed=passed, components=components, metrics=dict(metrics or {}), feedback=feedback)


def product(
    values: Mapping[str, float],
    *,
    pass_at: float | None = None,
    feedback: str | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Score:
    """The product of named parts, each kept in the score: one part at 0 makes the reward 0.

        product({"database": 1.0, "answer": 0.5}, pass_at=1.0)

    Raises:
        ValueError: there is no part, or a number is not finite.
    """
    if not values:
        raise ValueError("a product reward needs at least one part")
    components = {name: Component(value=finite(value, f"value {name!r}")) for name, value in values.items()}
    reward = finite(prod(part.value for part in components.values()), "the product")
    passed = None if pass_at is None else _reaches(reward, pass_at)
    return Score(
        reward=reward,
        passed=passed,
        components=components,
        combine="product",
        metrics=dict(metrics or {}),
        feedback=feedback,
    )


def _reaches(reward: float, pass_at: float) -> bool:
    """Whether a reward reaches the pass mark, with a tolerance for rounding."""
    line = finite(pass_at, "pass_at")
    return reward >= line - _ROUNDING * max(1.0, abs(line))


def check_weights(weights: Mapping[str, float]) -> None:
    """Refuse weights that give no reward.

    Raises:
        ValueError: there are none, one is not finite, or all are zero.
    """
    if not weights:
        raise ValueError("a composite reward needs at least one weight")
    for name, weight in weights.items():
        finite(weight, f"weight {name!r}")
    if not any(weights.values()):
        raise ValueError(f"all weights are zero: {', '.join(map(repr, weights))}; every reward would be 0")


def _check_same_names(things: Mapping[str, object], weights: Mapping[str, float], kind: str) -> None:
    problems = [f"{kind} {name!r} has no weight" for name in things if name not in weights]
    problems += [f"weight {name!r} has no {kind}" for name in weights if name not in things]
    if problems:
        raise ValueError("; ".join(problems))


class WeightedReward:
    """Named reward functions with weights; itself a reward function. Names and weights are checked when it is made.

        reward = WeightedReward({"correct": f, "brief": g}, {"correct": 1.0, "brief": 0.1}, passed_by="correct")
        score = await reward(task, submission)

    The functions run in order, one at a time. Of a part that returns a `Score`, the reward counts; its metrics,
    components, feedback and metadata are kept under the part's name, its judge calls in order; its rewards of turns,
    spans and seats are weighted and added. If a part gives a seat no reward of its own, the part's reward is used.

    Raises:
        ValueError: functions and weights have different names, a weight is not finite, all are zero, or the pass rule
            is unclear.
    """

    def __init__(
        self,
        functions: Mapping[str, RewardFunction],
        weights: Mapping[str, float],
        *,
        pass_at: float | None = None,
        passed_by: str | None = None,
    ) -> None:
        check_weights(weights)
        _check_same_names(functions, weights, "function")
        if pass_at is not None and passed_by is not None:
            raise ValueError("give either pass_at or passed_by: two rules for passing could contradict each other")
        if pass_at is not None:
            finite(pass_at, "pass_at")
        if passed_by is not None and passed_by not in weights:
            raise ValueError(f"passed_by names {passed_by!r}; the parts are {', '.join(map(repr, weights))}")
        self._functions = {name: functions[name] for name in weights}
        self._weights = dict(weights)
        self._pass_at, self._passed_by = pass_at, passed_by

    async def __call__(self, task: Task[Any, Any], submission: Submission) -> Score:
        """Score a submission by every part. Errors that a part raises are passed on unchanged.

        Raises:
            ValueError: a part returned no finite reward.
        """
        parts = {name: await apply(each, name, task, submission) for name, each in self._functions.items()}
        score = composite(
            {name: part.reward for name, part in parts.items()},
            self._weights,
            pass_at=self._pass_at,
            passed=parts[self._passed_by].passed if self._passed_by is not None else None,
            feedback="\n".join(f"{name}: {part.feedback}" for name, part in parts.items() if part.feedback) or None,
            metrics=_metrics(parts),
        )
        return score.model_copy(
            update={
                "suspect": "; ".join(f"{name}: {part.suspect}" for name, part in parts.items() if part.suspect) or None,
                "turn_rewards": self._turn_rewards(parts),
                "span_rewards": self._span_rewards(parts),
                "seat_rewards": self._seat_rewards(parts),
                "judge_calls": tuple(call for part in parts.values() for call in part.judge_calls),
                "metadata": {name: part.metadata for name, part in parts.items() if part.metadata},
            }
        )

    def _turn_rewards(self, parts: Mapping[str, Score]) -> dict[int, float]:
        rewards: dict[int, float] = {}
        for name, part in parts.items():
            for turn, reward in part.turn_rewards.items():
                weighted = rewards.get(turn, 0.0) + self._weights[name] * reward
                rewards[turn] = finite(weighted, f"the weighted reward of turn {turn}")
        return rewards

    def _span_rewards(self, parts: Mapping[str, Score]) -> tuple[SpanReward, ...]:
        return tuple(
            span.model_copy(update={"reward": finite(self._weights[name] * span.reward, f"a span of turn {span.turn}")})
            for name, part in parts.items()
            for span in part.span_rewards
        )

    def _seat_rewards(self, parts: Mapping[str, Score]) -> dict[str, float]:
        seats = dict.fromkeys(seat for part in parts.values() for seat in part.seat_rewards)
        return {
            seat: finite(
                sum(self._weights[name] * part.seat_rewards.get(seat, part.reward) for name, part in parts.items()),
                f"the weighted reward of seat {seat!r}",
            )
            for seat in seats
        }


def _metrics(parts: Mapping[str, Score]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, part in parts.items():
        found.update({f"{name}.{inner}": component.value for inner, component in part.components.items()})
        found.update({f"{name}.{metric}": value for metric, value in part.metrics.items()})
    return found
