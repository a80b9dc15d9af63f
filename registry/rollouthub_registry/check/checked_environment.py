"""The environment under check: its tasks and episodes, in this process."""

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from rollouthub import BadRow, Deadlines, Message, Model, Public, Score, Secret, Task, VerifierError
from rollouthub.engine.episode_seed import episode_seed
from rollouthub.environment import AnyEnvironment, Environment, EnvironmentConfig
from rollouthub.errors import ConfigError, NotOffered, UnknownNameError
from rollouthub.hosting import InProcessHost
from rollouthub.protocols import Episode, TaskCard
from rollouthub_registry.check.check_finding import NotApplicable
from rollouthub_registry.check.scripted_episode import Script, play

AnyTask = Task[Public, Secret]
MakeHost = Callable[[str, AnyEnvironment, EnvironmentConfig, Mapping[str, Model]], InProcessHost]

DEADLINES = Deadlines(setup=300, tool_call=120, agent=600, verify=300, close=60, episode=900)
"""Generous limits, for a busy machine; the time of a whole check is limited in `deadline.py`."""


@dataclass(frozen=True)
class ScriptResult:
    """The score of a scripted episode, or the verifier's error."""

    score: Score | None
    error: str | None = None
    faults: tuple[str, ...] = ()

    @property
    def reward(self) -> float | None:
        """The reward; None where there is no score."""
        return None if self.score is None else self.score.reward

    @property
    def is_won(self) -> bool:
        """Whether the task counts as solved: the verifier says so, or, if it decides nothing, the reward is 1."""
        if self.score is None:
            return False
        return self.score.reward >= 1 - 1e-9 if self.score.passed is None else self.score.passed


class CheckedEnvironment:
    """An environment with one configuration, and the tasks and episodes that checks need."""

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
        """A new host of `environment`, or of the environment under check."""
        return self._make_host(self.name, environment or self.environment, self.config, self._models)

    def listing(self, seed: int | None = None) -> Iterator[AnyTask]:
        """The tasks of the split in the environment's order, without bad rows.

        Raises:
            ConfigError: there is no task.
        """
        found = False
        for task in self.environment.tasks(self.config, self.split, self.seed if seed is None else seed):
            if not isinstance(task, BadRow):
                found = True
                yield task
        if not found:
            raise ConfigError(f"environment {self.name!r} has no task in split {self.split!r}")

    def tasks(self) -> list[AnyTask]:
        """The first tasks of the split, as many as `limit`."""
        found: list[AnyTask] = []
        for task in self.listing():
            found.append(task)
            if len(found) == self.limit:
                break
        return found

    def host_of(self, tasks: Sequence[AnyTask]) -> InProcessHost:
        """A host of the same environment that lists these tasks instead of its own."""

        def given(cls: AnyEnvironment, config: Any, split: str, seed: int) -> Iterable[AnyTask]:
            return iter(tasks)

        kind = self.environment
        body = {"tasks": classmethod(given), "__module__": kind.__module__, "__qualname__": kind.__qualname__}
        return self.new_host(type(kind.__name__, (kind,), body))

    @asynccontextmanager
    async def episode(
        self, task: AnyTask, host: InProcessHost | None = None, *, is_alone: bool = True
    ) -> AsyncGenerator[Episode]:
        """An episode of a task, with the seed that it would have in a run.

        With `is_alone`, where seats take turns, all seats but the first leave, so that it waits for no other seat.
        """
        host = host or self.host_of([task])
        async for card in host.tasks(self.split, self.seed):
            if not isinstance(card, BadRow) and card.public.id == task.id:
                async with host.open(card, seed=self.episode_seed(card), deadlines=DEADLINES) as episode:
                    for other in list(episode.seats)[1:] if is_alone and self.environment.takes_turns else ():
                        await episode.leave(other)
                    yield episode
                return
        raise AssertionError("a host lists the tasks it was given")

    def episode_seed(self, card: TaskCard | AnyTask) -> int:
        """The seed of a task's episodes."""
        return episode_seed(self.seed, self.name, self.split, card.public.id)

    def null_reward(self, task: AnyTask) -> float:
        """The reward that doing nothing may earn on a task, as its environment declares."""
        return self.environment(task, self.config, self.seed).null_reward()

    async def reference(self, task: AnyTask) -> Sequence[Message]:
        """The task's reference solution for the first seat; empty if it has none."""
        async with self.episode(task) as episode:
            return await episode.reference()

    def require_verify(self) -> None:
        """Check that the environment can score a single sample.

        Raises:
            NotApplicable: the environment only scores groups.
        """
        if self.environment.scores_groups() and self.environment.verify is Environment.verify:
            raise NotApplicable("it scores all samples of a task together; write `verify`, and one can be scored, too")

    async def references(self, task: AnyTask) -> Mapping[str, Sequence[Message]]:
        """The task's reference solution by seat; empty if no seat has one."""
        async with self.episode(task) as episode:
            found = {seat: await episode.reference(seat) for seat in episode.seats}
        return found if any(found.values()) else {}

    async def verdict(self, task: AnyTask, script: Script, *, submit: str | None = None) -> ScriptResult:
        """Play a script in a new episode, submit an answer if there is one, and score.

        Raises:
            NotApplicable: the environment only scores groups.
        """
        self.require_verify()
        async with self.episode(task, is_alone=False) as episode:
            submission = await play(episode, script, submit=submit, takes_turns=self.environment.takes_turns)
            faults = tuple(f"{fault.type}: {fault.message}" for fault in episode.faults)
            try:
                return ScriptResult(await episode.verify(submission), None, faults)
            except VerifierError as error:
                return ScriptResult(None, str(error), faults)

    async def snapshot(self, episode: Episode) -> JsonValue:
        """The environment's snapshot of the episode's state; None if it does not take any."""
        try:
            return await episode.snapshot()
        except NotOffered:
            return None
