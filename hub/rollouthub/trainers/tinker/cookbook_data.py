"""Tinker-cookbook's data set of the hub's tasks: groups of environments, batches of groups, and what builds them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any
from uuid import uuid4

import anyio.to_thread

from rollouthub.errors import ConfigError
from rollouthub.export import TaskReference
from rollouthub.trainers.stream import SampleRequest
from rollouthub.trainers.systems import system_module
from rollouthub.trainers.tinker.cookbook import HubTurns, Played


@dataclass
class CookbookGroup:
    """The samples of one task, which share the environment's seed; the cookbook may send it to another process."""

    played: Played
    task: TaskReference
    size: int
    name: str = field(default_factory=lambda: uuid4().hex)
    envs: list[HubTurns] = field(default_factory=list[HubTurns], repr=False)

    async def make_envs(self) -> Sequence[HubTurns]:
        """Environments, each of which plays one sample once."""
        env, task = env_class(), self.task
        asked = [
            SampleRequest(task.task_id, task.environment, task.split, group=self.name, sample=number)
            for number in range(self.size)
        ]
        self.envs = [env(self.played, wanted) for wanted in asked]
        return self.envs

    async def cleanup(self) -> None:
        """Break off episodes that are not over."""
        while self.envs:
            self.envs.pop().give_up()

    def logging_tags(self) -> list[str]:
        """The environment's name: the cookbook's metrics are by it, too."""
        return [self.task.environment]


class CookbookBatches:
    """Batches of groups of an environment's tasks, in their order."""

    def __init__(self, played: Played, tasks: Sequence[TaskReference], batch_size: int, group_size: int) -> None:
        """`batch_size` is the number of groups in a batch.

        Raises:
            ConfigError: there are not enough tasks for one batch.
        """
        if len(tasks) < batch_size:
            raise ConfigError(f"batch_size {batch_size} is more than the {len(tasks)} tasks that there are")
        self._played, self._tasks, self._batch, self._group = played, tasks, batch_size, group_size

    def get_batch(self, index: int) -> Sequence[CookbookGroup]:
        """The groups of a batch."""
        group, begin = group_class(), index * self._batch
        return [group(self._played, task, self._group) for task in self._tasks[begin : begin + self._batch]]

    def __len__(self) -> int:
        return len(self._tasks) // self._batch


def tasks_of(played: Played, environment: str | None, split: str | None) -> list[TaskReference]:
    """The tasks of an environment's split; by default the first environment, and its own split. It blocks.

    Raises:
        UsageError: there is no such environment or split.
    """
    worker = played.opened()
    name = environment or worker.environments[0]
    return [TaskReference(name, split or "", task.id) for task in worker.tasks(name, split)]


@cache
def env_class() -> Any:
    """`HubEnv`: the hub's turns as the cookbook's `Env`."""
    return _derived("HubEnv", HubTurns, "Env")


@cache
def group_class() -> Any:
    """`HubGroup`: a group as the cookbook's `EnvGroupBuilder`."""
    return _derived("HubGroup", CookbookGroup, "EnvGroupBuilder")


@cache
def builder_class() -> Any:
    """`HubDatasetBuilder`: the cookbook's `RLDatasetBuilder` over the hub's tasks."""
    base: Any = system_module("tinker_cookbook.rl.types").RLDatasetBuilder
    chz: Any = import_module("chz")  # which the cookbook brings
    batches = _derived("HubDataset", CookbookBatches, "RLDataset")

    @chz.chz
    class HubDatasetBuilder(base):
        settings: str
        model_name: str
        batch_size: int
        group_size: int
        environment: str | None = None
        split: str | None = None
        test_environment: str | None = None
        test_split: str | None = None
        test_group_size: int = 1

        async def __call__(self) -> tuple[Any, Any]:
            return await anyio.to_thread.run_sync(self.made)

        def made(self) -> tuple[Any, Any]:
            played = Played(self.settings, self.model_name)
            tasks = tasks_of(played, self.environment, self.split)
            train = batches(played, tasks, self.batch_size, self.group_size)
            if self.test_environment is None and self.test_split is None:
                return train, None
            held_out = tasks_of(played, self.test_environment, self.test_split)
            return train, batches(played, held_out, len(held_out), self.test_group_size)

    HubDatasetBuilder.__module__ = "rollouthub.trainers.tinker"
    return HubDatasetBuilder


def _derived(name: str, ours: type, base: str) -> Any:
    """Our class as a subclass of the cookbook's; `rollouthub.trainers.tinker` has it by that name, as pickle asks."""
    theirs: Any = getattr(system_module("tinker_cookbook.rl.types"), base)
    made = type(name, (ours, theirs), {"__doc__": ours.__doc__})
    made.__module__, made.__qualname__ = "rollouthub.trainers.tinker", name
    return made
