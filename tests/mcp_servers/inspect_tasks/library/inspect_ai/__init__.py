"""A library of the shape of inspect_ai, as small as its driver needs it; for tests."""

# pyright: basic

from types import SimpleNamespace
from typing import Any

from inspect_ai.model import ACTIVE, Answering
from inspect_ai.solver import TaskState
from inspect_ai.util import LimitExceededError


def task(function: Any) -> Any:
    """Mark a function that gives a task."""
    return function


class Task:
    """A dataset, a solver and scorers."""

    def __init__(self, dataset: Any, solver: Any = None, scorer: Any = None, sandbox: "str | None" = None) -> None:
        self.dataset, self.solver = dataset, solver or Answering()
        self.scorer: Any = scorer if isinstance(scorer, list) or scorer is None else [scorer]
        self.sandbox = None if sandbox is None else SimpleNamespace(type=sandbox)
        self.model = self.approval = None


async def eval_async(task: Task, model: Any, **_: Any) -> Any:
    """Evaluate the one sample that there is."""
    (sample,) = task.dataset
    ACTIVE.append(model)
    state, limit = TaskState(sample), None
    try:
        await task.solver(state, model)
    except LimitExceededError as error:
        limit = SimpleNamespace(type=error.type)
    scores = {each.__name__: await each(state, sample.target) for each in task.scorer}
    return [SimpleNamespace(samples=[SimpleNamespace(scores=scores, limit=limit)])]
