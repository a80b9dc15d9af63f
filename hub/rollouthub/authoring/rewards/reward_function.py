"""A reward function: a task and a submission in, a number, a yes or no, or a whole `Score` out."""

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rollouthub.score import Score, Submission
from rollouthub.task import Task

RewardFunction = Callable[[Task[Any, Any], Submission], float | Score | Awaitable[float | Score]]
"""Sync or async. A sync one runs on the event loop: keep it quick, and take slow work to a worker."""


def binary(passed: bool, *, feedback: str | None = None, metrics: Mapping[str, float] | None = None) -> Score:
    """All or nothing: 1.0 when passed, else 0.0.

    Raises:
        ValueError: `passed` is no bool; a check that came to no verdict is a fault, not a failure.
    """
    _check_verdict(passed)
    return Score(reward=1.0 if passed else 0.0, passed=passed, metrics=dict(metrics or {}), feedback=feedback)


def _check_verdict(passed: object) -> None:
    if not isinstance(passed, bool):
        raise ValueError(f"binary() takes True or False, got {passed!r}; a check without a verdict has no reward")


def as_score(value: object, name: str) -> Score:
    """What a reward function returned, as a `Score`: a bool is `binary`, a number draws no pass line.

    Raises:
        ValueError: it is none of these, or not finite; `name` says whose it is.
    """
    if isinstance(value, Score):
        return value
    if isinstance(value, bool):
        return binary(value)
    return Score(reward=finite(value, f"reward {name!r}"))


def finite(value: object, what: str) -> float:
    """A finite float, from anything that is a number (NumPy's and torch's scalars included).

    Raises:
        ValueError: it is no number, NaN or infinite.
    """
    try:
        if math.isfinite(value):  # pyright: ignore[reportArgumentType]  # what is no number raises TypeError
            return float(value)  # pyright: ignore[reportArgumentType]  # as above
    except (TypeError, OverflowError):
        pass
    raise ValueError(f"{what} is {value!r}; it must be a finite number")


async def apply(function: RewardFunction, name: str, task: Task[Any, Any], submission: Submission) -> Score:
    """Call a reward function, awaiting it where it is async.

    Raises:
        ValueError: it returned no reward.
    """
    returned = function(task, submission)
    return as_score(await returned if inspect.isawaitable(returned) else returned, name)
