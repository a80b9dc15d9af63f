"""Filters: which trainable rollouts go into a data set."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.export.pairs import earned
from rollouthub.rollout import Rollout, Stop, Turn
from rollouthub.statistics.spread import deviation_of

_STOPS = [stop.value for stop in Stop]


class FilterName(StrEnum):
    """The names of filters in the counts of left-out rollouts."""

    ENVIRONMENT = "environment"
    TASK = "task"
    PASSED = "passed"
    REWARD = "reward"
    STOP = "stop"
    TURNS = "turns"
    TOKENS = "tokens"
    TRAINABLE = "trainable"
    WHERE = "where"
    """It does not match the filter expression."""
    RANGE = "range"
    """The rewards of the group are too close to each other."""


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a data set; by default every rollout passes."""

    environments: Sequence[str] = ()
    """Names of the environments to take; empty takes all."""
    tasks: Sequence[str] = ()
    """Task ids to take, with `*` and `?` as wildcards; empty takes all."""
    passed: bool | None = None
    """Whether to take only rollouts that passed, or only those that failed; None takes all, including those with
    neither.
    """
    min_reward: float | None = None
    max_reward: float | None = None
    stops: Sequence[str] = ()
    """Stop reasons to take (`finished`, `submitted` …); empty takes all."""
    min_turns: int | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    """Most tokens of context, prompt and answer together, in any turn."""
    trainable: bool = False
    """Take only rollouts whose record says they are trainable: engine ids and log-probabilities for every turn."""
    min_range: float | None = None
    """Take only groups whose best and worst reward differ by at least this much."""
    min_deviation: float | None = None
    """The least standard deviation (n - 1) of a group's rewards."""

    def __post_init__(self) -> None:
        """Refuse filters that no rollout could pass.

        Raises:
            ConfigError: a bound is not a finite number, or a range is empty.
            UnknownNameError: there is no such stop reason.
        """
        for stop in self.stops:
            if stop not in _STOPS:
                raise UnknownNameError("stop", stop, _STOPS)
        for name in ("min_reward", "max_reward", "min_range", "min_deviation"):
            value: float | None = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise ConfigError(f"{name} = {value} is no bound; give a number")
        for low, high, name in (
            (self.min_reward, self.max_reward, "reward"),
            (self.min_turns, self.max_turns, "turns"),
        ):
            if low is not None and high is not None and low > high:
                raise ConfigError(f"nothing has {name} of at least {low:g} and at most {high:g}; turn them round")

    def rejects_task(self, rollout: Rollout) -> tuple[FilterName, str] | None:
        """Why a rollout's environment or task is rejected, as the filter's name and a reason; None if it is not."""
        if self.environments and rollout.environment.name not in self.environments:
            return FilterName.ENVIRONMENT, f"it was played in {rollout.environment.name}"
        if self.tasks and not any(fnmatchcase(rollout.task.id, pattern) for pattern in self.tasks):
            return FilterName.TASK, f"its task is {rollout.task.id}"
        return None

    def rejects_group(self, rewards: Sequence[float]) -> str | None:
        """Why a group's rewards are too close to each other; None if they are not."""
        between = max(rewards) - min(rewards) if rewards else 0.0
        if self.min_range is not None and between < self.min_range:
            return f"its group's {len(rewards)} rewards lie within {between:g}"
        if self.min_deviation is not None:
            deviation = deviation_of(rewards) or 0.0
            if deviation < self.min_deviation:
                return f"its group's {len(rewards)} rewards deviate by {deviation:g}"
        return None

    def rejects(self, rollout: Rollout, seat: str | None = None) -> tuple[FilterName, str] | None:
        """Why a scored rollout is rejected, as the filter's name and a reason; None if it is not. With `seat`, by
        the seat's reward.
        """
        reward, score = earned(rollout, seat), rollout.score
        assert reward is not None
        assert score is not None
        if self.passed is not None and score.passed is not self.passed:
            return FilterName.PASSED, {True: "it passed", False: "it did not pass", None: "no line was drawn"}[
                score.passed
            ]
        if (self.min_reward is not None and reward < self.min_reward) or (
            self.max_reward is not None and reward > self.max_reward
        ):
            return FilterName.REWARD, f"its reward is {reward:g}"
        if self.stops and rollout.stop.value not in self.stops:
            return FilterName.STOP, f"it ended with {rollout.stop.value}"
        count = len(rollout.turns)
        if (self.min_turns is not None and count < self.min_turns) or (
            self.max_turns is not None and count > self.max_turns
        ):
            return FilterName.TURNS, f"it has {count} turns"
        if self.max_tokens is not None and (length := longest_context(rollout.turns)) > self.max_tokens:
            known = f"it has {length:g} tokens" if math.isfinite(length) else "its tokens were not counted"
            return FilterName.TOKENS, known
        if self.trainable and not rollout.trainable:
            return FilterName.TRAINABLE, rollout.trainable_reason or "its record says it is not trainable"
        return None


def longest_context(turns: Sequence[Turn]) -> float:
    """Most tokens of a prompt with its answer among the turns, by token ids or the server's count; infinity if a
    turn has neither.
    """
    return max((_context(turn) for turn in turns), default=0)


def _context(turn: Turn) -> float:
    prompt, output = turn.prompt_token_ids, turn.output_token_ids
    if prompt is not None and output is not None:
        return len(prompt) + len(output)
    counted = turn.usage.prompt_tokens + turn.usage.output_tokens
    return counted or math.inf
