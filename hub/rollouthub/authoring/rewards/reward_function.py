"""Reward functions: take a task and a submission, return a number, a bool, or a `Score`."""

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rollouthub.score import Score, Submission
from rollouthub.task import Task

RewardFunction = Callable[[Task[Any, Any], Submission], float | Score | Awaitable[float | Score]]
"""Sync or async. A sync function runs on the event loop: keep it fast, and run slow work in a worker thread."""


def binary(passed: bool, *, feedback: str | None = None, metrics: Mapping[str, float] | None = None) -> Score:
    """A reward of 1.0 if passed, else 0.0.

    Raises:
        ValueError: `passed` is no bool; a check without a result is a fault, not a failure.
    """
    _check_verdict(passed)
    return Score(reward=1.0 if passed else 0.0, passed=passed, metrics=dict(metrics or {}), feedback=feedback)


def _check_verdict(passed: object) -> None:
    if not isinstance(passed, bool):
        raise ValueError(f"binary() takes True or False, got {passed!r}; a check without a verdict has no reward")


def as_score(value: object, name: str) -> Score:
    """A reward function's return value as a `Score`: a bool is `binary`, a number has no pass mark.

    Raises:
        ValueError: the value is no score, or not finite; `name` says where it came from.
    """
    if isinstance(value, Score):
        return value
    if isinstance(value, bool):
        return binary(value)
    return Score(reward=finite(value, f"reward {name!r}"))


def finite(value: object, what: str) -> float:
    """Convert a number (also a NumPy or torch scalar) to a finite float.

    Raises:
        ValueError: the value is no number, NaN or infinite.
    """
    try:
        if math.isfinite(value):  # pyright: ignore[reportArgumentType]  # what is no number raises TypeError
            return float(value)  # pyright: ignore[reportArgumentType]  # as above
    except (TypeError, OverflowError):
        pass
    raise ValueError(f"{what} is {value!r}; it must be a finite number")


async def apply(function: RewardFunction, name: str, task: Task[Any, Any], submission: Submission) -> Score:
    """Call a sync or async reward function.

    Raises:
        ValueError: it returned no reward.
    """
    returned = function(task, submission)
    return as_score(await returned if inspect.isawaitable(returned) else returned, name)
