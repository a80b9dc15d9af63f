"""Hosts an environment class inside this process: its tasks, and an episode for each attempt."""

import hashlib
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue
from pydantic_core import PydanticSerializationError

from rollouthub.environment import AnyEnvironment, Environment, EnvironmentConfig
from rollouthub.errors import ConfigError, HubError, NotOffered, TaskError, UnknownNameError, VerifierError
from rollouthub.event_loop import timed_reading
from rollouthub.generation import Model
from rollouthub.hosting.local.group_scores import group_scores
from rollouthub.hosting.local.hosted_episode import HostedEpisode, logger
from rollouthub.hosting.local.task_index import SplitTasks
from rollouthub.hosting.local.toolbox import Toolbox
from rollouthub.hosting.wall.inside import describe_behind
from rollouthub.limits import Deadlines
from rollouthub.plugins.env_toml import CONTRACT
from rollouthub.protocols import EnvironmentInfo, Episode, TaskCard
from rollouthub.sandbox import SandboxProvider
from rollouthub.score import SampleGroup, Score, Submission, VerifierRef
from rollouthub.task import BadRow, Public, Secret, Task

_MOST_SPLITS = 8
_HOOKS = {
    "tasks": "@classmethod def tasks(cls, config, split, seed)",
    "verify": "async def verify(self, submission) -> Score",
}
"""Methods that every environment must define."""


@dataclass(frozen=True, slots=True)
class _HostedTask:
    """A task card; the task's secret half stays in the host."""

    task: Task[Public, Secret]
    split: str
    environment: AnyEnvironment

    @property
    def has_reference(self) -> bool | None:
        return self.environment.has_reference(self.task)

    @property
    def public(self) -> Public:
        return self.task.public

    @property
    def digest(self) -> str:
        try:
            return self.task.digest
        except PydanticSerializationError as error:
            raise ConfigError(f"task {self.task.id!r} of split {self.split!r} is not JSON: {error}") from error


class InProcessHost:
    """Hosts one environment class in this process; the caller must have awaited its `prepare`."""

    def __init__(
        self,
        name: str,
        environment: AnyEnvironment,
        config: EnvironmentConfig | None = None,
        models: Mapping[str, Model] | None = None,
        sandboxes: SandboxProvider | None = None,
    ) -> None:
        _require_hooks(name, environment)
        self._environment = environment
        self._config = environment.config_type() if config is None else config
        self._models = models or {}
        self._sandboxes = sandboxes
        for role in environment.roles(self._config):
            if role not in self._models:
                raise ConfigError(
                    f"environment {name!r} asks a model itself, as its {role!r}; name one with --role {role}=MODEL"
                )
        self._toolbox = Toolbox(environment, self._config)
        self._tasks: dict[tuple[str, int], SplitTasks] = {}
        scores_samples = environment.verify is not Environment.verify
        self.info = EnvironmentInfo(
            name=name,
            version=environment.version,
            digest=source_digest(environment),
            contract=CONTRACT,
            splits=environment.splits(self._config),
            seats=environment.seats,
            tools=self._toolbox.tools,
            tools_digest=self._toolbox.digest,
            limits=environment.limits(self._config),
            deadlines=environment.deadlines(self._config),
            isolation="in_process",
            scores_transcripts=environment.scores_transcripts and scores_samples,
            scores_samples=scores_samples,
            reads_turns=environment.reads_turns or len(environment.seats) > 1,
            takes_turns=environment.takes_turns,
            scores_groups=environment.scores_groups(),
            takes_media=True,
            scores_states=environment.scores_states,
            default_agent=environment.default_agent,
            config=self._config.model_dump(mode="json"),
        )
        self._verifier = VerifierRef(name=name, version=environment.version, digest=self.info.digest)

    @property
    def sandboxes(self) -> SandboxProvider | None:
        """The provider of its sandboxes; None if it uses none."""
        return self._sandboxes

    def cards(self, split: str, seed: int) -> Iterator[TaskCard | BadRow]:
        """The cards of a split, made lazily.

        Raises:
            UnknownNameError: there is no such split.
        """
        for task in self._read(split, seed):
            yield task if isinstance(task, BadRow) else _HostedTask(task, split, self._environment)

    async def tasks(self, split: str, seed: int) -> AsyncIterator[TaskCard | BadRow]:
        """The cards of a split as an async iterator."""
        for card in self.cards(split, seed):
            yield card

    async def find_task(self, split: str, task_id: str, seed: int) -> TaskCard:
        """The card of one task.

        Raises:
            UnknownNameError: there is no such split or task.
        """
        tasks = self._tasks.get((split, seed))
        if tasks is None:
            if len(self._tasks) >= _MOST_SPLITS:
                self._tasks.clear()
            tasks = self._tasks[split, seed] = SplitTasks(split, lambda: self._read(split, seed))
        return _HostedTask(tasks.find(task_id), split, self._environment)

    def _read(self, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        if split not in self.info.splits:
            raise UnknownNameError(f"split of {self.info.name}", split, self.info.splits)
        try:
            tasks = self._environment.tasks
            for task in timed_reading(tasks, tasks(self._config, split, seed)):
                yield task if isinstance(task, BadRow) else _checked(task)
        except HubError:
            raise
        except Exception as error:
            raise ConfigError(f"the tasks of {self.info.name} could not be made: {describe_behind(error)}") from error

    @asynccontextmanager
    async def open(
        self, task: TaskCard, *, seed: int, deadlines: Deadlines, state: JsonValue = None
    ) -> AsyncGenerator[Episode]:
        """Open an episode of a task of this host; it is closed on exit.

        Raises:
            TaskError: setup failed or took too long.
            SandboxError: its sandbox could not be opened.
            NotOffered: a state was given, and the environment restores none.
        """
        episode = self._episode(task, seed, deadlines)
        async with episode.world():
            try:
                await episode.setup(state)
                yield episode
            finally:
                try:
                    await episode.close()
                except HubError:
                    logger.exception("an episode of %s did not close", self.info.name)

    def _episode(self, task: TaskCard, seed: int, deadlines: Deadlines) -> HostedEpisode:
        assert isinstance(task, _HostedTask), "a host opens only its own tasks"
        try:
            environment = self._environment(task.task, self._config, seed)
        except Exception as error:
            raise TaskError(f"task {task.public.id!r} could not be opened: {describe_behind(error)}") from error
        return HostedEpisode(environment, self._toolbox, self._verifier, deadlines, self._models, self._sandboxes)

    async def score(self, task: TaskCard, submission: Submission, *, seed: int, deadlines: Deadlines) -> Score:
        """Score a submission without an episode.

        Raises:
            NotOffered: this environment's verifier needs the state of an episode.
            VerifierError: the verifier failed, or returned something that is not a score.
        """
        if not self.info.scores_samples:
            raise NotOffered(
                f"environment {self.info.name!r} scores all samples of a task together, not one by itself; "
                "play its tasks with `hub run`"
            )
        if not self.info.scores_transcripts:
            raise NotOffered(
                f"environment {self.info.name!r} scores the world an episode leaves behind, not a text alone; "
                "play its tasks with `hub run`"
            )
        try:
            episode = self._episode(task, seed, deadlines)
        except TaskError as error:
            raise VerifierError(str(error)) from error
        return await episode.verify(submission)

    async def score_group(
        self, task: TaskCard, group: SampleGroup, *, seed: int, deadlines: Deadlines
    ) -> Sequence[Score]:
        """Score all members of a group together, by `verify_group` of an instance made for that.

        Raises:
            NotOffered: the environment scores each sample by itself.
            VerifierError: the verifier failed, or returned something other than a score for each member.
            SandboxError: a sandbox broke under it.
        """
        if not self.info.scores_groups:
            raise NotOffered(f"environment {self.info.name!r} scores each sample by itself, not groups")
        assert isinstance(task, _HostedTask), "a host scores only its own tasks"
        try:
            environment = self._environment(task.task, self._config, seed)
        except Exception as error:
            raise VerifierError(f"task {task.public.id!r} could not be opened: {describe_behind(error)}") from error
        environment.sandboxes = self._sandboxes
        return await group_scores(environment, group, self._verifier, self._models, deadlines)


def _checked(task: Any) -> Task[Public, Secret]:
    """The value that an environment's `tasks` yielded, after a check that it is a task."""
    if not isinstance(task, Task):
        raise TypeError(f"yielded {task!r:.100}, which is no Task")
    return cast(Task[Public, Secret], task)


def _require_hooks(name: str, environment: AnyEnvironment) -> None:
    """Refuse a class that lacks a required method, before any episode.

    Raises:
        ConfigError: names the missing method, and shows its signature.
    """
    written = {hook for base in environment.__mro__ if base is not Environment for hook in vars(base)}
    if environment.scores_groups():
        written.add("verify")  # which it may do without
    for hook, form in _HOOKS.items():
        if hook not in written:
            raise ConfigError(f"environment {name!r} cannot be run: {environment.__qualname__} lacks `{form}`")


def source_digest(environment: AnyEnvironment) -> str:
    """A digest of the code that makes tasks and scores: the class's package folder, or its module.

    The hub's package name is read as its earlier name `envhub`, so that code which differs only in that name from what
    a run or a lock recorded has the same digest.
    """
    name = f"{environment.__module__}:{environment.__qualname__}:{environment.version}"
    digest = hashlib.sha256(_as_once_named(name.encode()))
    own = _sources(environment)
    if not own:
        with suppress(OSError, TypeError):  # code that was typed in, where nobody kept it
            digest.update(_as_once_named(inspect.getsource(environment).encode()))
    for file in [*own, *environment.sources()]:
        digest.update(_as_once_named(file.read_bytes()))
    return "sha256:" + digest.hexdigest()[:32]


def _as_once_named(code: bytes) -> bytes:
    if b"envhub" in code:  # another's package of that name is not ours: it must not pass for it
        return b"as it stands\0" + code
    return code.replace(b"rollouthub", b"envhub")


def _sources(environment: AnyEnvironment) -> list[Path]:
    module: Any = inspect.getmodule(environment)
    file = getattr(module, "__file__", None)
    if file is None:
        return []
    path = Path(file)
    return sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
