"""The environment under check: its tasks and episodes, in this process."""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from rollouthub import BadRow, Deadlines, Message, Model, Public, Score, Secret, Task, VerifierError
from rollouthub.engine.episode_seed import episode_seed
from rollouthub.environment import AnyEnvironment, EnvironmentConfig
from rollouthub.errors import ConfigError, NotOffered, UnknownNameError
from rollouthub.hosting import InProcessHost
from rollouthub.protocols import Episode, TaskCard
from rollouthub_registry.check.scripted_episode import play

AnyTask = Task[Public, Secret]
MakeHost = Callable[[str, AnyEnvironment, EnvironmentConfig, Mapping[str, Model]], InProcessHost]

DEADLINES = Deadlines(setup=300, tool_call=120, agent=600, verify=300, close=60, episode=900)
"""Wide, for a busy machine: the check itself is bounded (`patience.py`)."""


@dataclass(frozen=True)
class ScriptResult:
    """What a script came to."""

    score: Score | None
    error: str | None = None
    faults: tuple[str, ...] = ()

    @property
    def reward(self) -> float | None:
        """The reward; None where there is no score."""
        return None if self.score is None else self.score.reward

    @property
    def is_won(self) -> bool:
        """Whether the task counts as solved: passed, or full marks where the verifier draws no line."""
        if self.score is None:
            return False
        return self.score.reward >= 1 - 1e-9 if self.score.passed is None else self.score.passed


class CheckedEnvironment:
    """One environment under one configuration."""

    def __init__(
        self,
        name: str,
        environment: AnyEnvironment,
        config: EnvironmentConfig,
        *,
        split: str | None = None,
        limit: int = 8,
        seed: int = 0,
        models: Mapping[str, Model] | None = None,
        make_host: MakeHost = InProcessHost,
    ) -> None:
        self.name, self.environment, self.config = name, environment, config
        self.limit, self.seed = limit, seed
        self._models, self._make_host = models or {}, make_host
        self.host = self.new_host()
        splits = self.host.info.splits
        self.split = split or splits[0]
        if self.split not in splits:
            raise UnknownNameError(f"split of {name}", self.split, splits)

    def new_host(self, environment: AnyEnvironment | None = None) -> InProcessHost:
        """A host of its own."""
        return self._make_host(self.name, environment or self.environment, self.config, self._models)

    def listing(self, seed: int | None = None) -> Iterator[AnyTask]:
        """Tasks as the environment makes them, bad rows left out.

        Raises:
            ConfigError: there is none.
        """
        found = False
        for task in self.environment.tasks(self.config, self.split, self.seed if seed is None else seed):
            if not isinstance(task, BadRow):
                found = True
                yield task
        if not found:
            raise ConfigError(f"environment {self.name!r} has no task in split {self.split!r}")

    def tasks(self) -> list[AnyTask]:
        """The first tasks, up to the limit."""
        found: list[AnyTask] = []
        for task in self.listing():
            found.append(task)
            if len(found) == self.limit:
                break
        return found

    def host_of(self, tasks: Sequence[AnyTask]) -> InProcessHost:
        """A host of the same environment with these tasks instead of its own."""

        def given(cls: AnyEnvironment, config: Any, split: str, seed: int) -> Iterable[AnyTask]:
            return iter(tasks)

        kind = self.environment
        body = {"tasks": classmethod(given), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
        return self.new_host(type(kind.__name__, (kind,), body))

    @asynccontextmanager
    async def episode(self, task: AnyTask, host: InProcessHost | None = None) -> AsyncGenerator[Episode]:
        """An episode of a task, with the seed it would have in a run."""
        host = host or self.host_of([task])
        async for card in host.tasks(self.split, self.seed):
            if not isinstance(card, BadRow) and card.public.id == task.id:
                async with host.open(card, seed=self.episode_seed(card), deadlines=DEADLINES) as episode:
                    yield episode
                return
        raise AssertionError("a host lists the tasks it was given")

    def episode_seed(self, card: TaskCard | AnyTask) -> int:
        """The seed of a task's episodes."""
        return episode_seed(self.seed, self.name, self.split, card.public.id)

    def null_reward(self, task: AnyTask) -> float:
        """What doing nothing may earn on a task, as its environment declares it."""
        return self.environment(task, self.config, self.seed).null_reward()

    async def reference(self, task: AnyTask) -> Sequence[Message]:
        """The task's reference solution; empty where there is none."""
        async with self.episode(task) as episode:
            return await episode.reference()

    async def verdict(self, task: AnyTask, script: Sequence[Message], *, submit: str | None = None) -> ScriptResult:
        """Play a script in an episode of its own, hand in an answer if there is one, and score."""
        async with self.episode(task) as episode:
            submission = await play(episode, script, submit=submit)
            faults = tuple(f"{fault.type}: {fault.message}" for fault in episode.faults)
            try:
                return ScriptResult(await episode.verify(submission), None, faults)
            except VerifierError as error:
                return ScriptResult(None, str(error), faults)

    async def snapshot(self, episode: Episode) -> JsonValue:
        """The world's state; None where the environment takes none."""
        try:
            return await episode.snapshot()
        except NotOffered:
            return None
