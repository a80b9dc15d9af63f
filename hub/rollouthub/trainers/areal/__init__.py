"""AReaL: a rollout workflow over its engine, a black-box agent and a player over its proxy, and its trajectories.

`HubWorkflow` is made from AReaL's `RolloutWorkflow` when it is asked for, also by name
(`rollouthub.trainers.areal.HubWorkflow`); nothing else here needs AReaL to be imported.
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
    """Rows of a data set: `messages` to look at, and the task's name."""
    for task in tasks:
        yield {"messages": prompt_messages(task), COLUMN: str(TaskReference(environment, split, task.id))}


def __getattr__(name: str) -> Any:
    """Make the class once it is asked for: AReaL imports torch."""
    if name != "HubWorkflow":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rollouthub.trainers.areal.workflow import workflow_class

    globals()[name] = made = workflow_class()
    return made
