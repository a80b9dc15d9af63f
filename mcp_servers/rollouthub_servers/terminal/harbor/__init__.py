"""The Harbor task format: a folder with `task.toml`, an instruction, an image, tests and a reference solution.

Implemented from the format's public description (https://www.harborframework.com/docs/tasks), schema 1.0 to 1.4.
"""

from rollouthub_servers.terminal.harbor.dataset import find_tasks
from rollouthub_servers.terminal.harbor.settings import TaskSettings
from rollouthub_servers.terminal.harbor.task import HarborTask, Step, UnknownKeys, load_task

__all__ = ["HarborTask", "Step", "TaskSettings", "UnknownKeys", "find_tasks", "load_task"]
