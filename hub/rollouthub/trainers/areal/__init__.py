"""AReaL: a rollout workflow over its engine, an agent and an online player over its proxy, and its trajectories.

`HubWorkflow` derives from AReaL's `RolloutWorkflow` and is created on first access, also by its name
(`rollouthub.trainers.areal.HubWorkflow`). Only that access imports AReaL.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rollouthub.export import TaskReference
from rollouthub.export.task_rows import COLUMN, prompt_messages
from rollouthub.task import Public
from rollouthub.trainers.areal.proxy import OnlinePlayer, online_player
from rollouthub.trainers.areal.proxy import ProxyAgent as HubAgent
from rollouthub.trainers.areal.tensors import row_columns, trajectory

if TYPE_CHECKING:
    HubWorkflow: Any

__all__ = ["HubAgent", "HubWorkflow", "OnlinePlayer", "online_player", "row_columns", "task_rows", "trajectory"]


def task_rows(tasks: Iterable[Public], environment: str, split: str) -> Iterator[dict[str, Any]]:
    """Rows of a data set for AReaL: `messages`, for inspection only, and the task's name, by which the hub finds the
    task.
    """
    for task in tasks:
        yield {"messages": prompt_messages(task), COLUMN: str(TaskReference(environment, split, task.id))}


def __getattr__(name: str) -> Any:
    """Create `HubWorkflow` on first access, because that imports AReaL and torch."""
    if name != "HubWorkflow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rollouthub.trainers.areal.workflow import workflow_class

    globals()[name] = made = workflow_class()
    return made
