"""`Environment`: the class that an environment is written as. Each episode gets a fresh instance, so `self` is the
episode.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Generic, cast, get_args, get_origin

from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, JsonValue
from typing_extensions import TypeVar

from rollouthub.errors import NotOffered, SandboxError
from rollouthub.generation import Model
from rollouthub.limits import Deadlines, Limits
from rollouthub.messages import Message, system, user
from rollouthub.protocols import DEFAULT_AGENT
from rollouthub.rollout import ONLY_SEAT
from rollouthub.sandbox import Network, Sandbox, SandboxProvider, SandboxSpec, Snapshot
from rollouthub.score import CollectedArtifacts, SampleGroup, Score, Submission
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub.tools import CALLING_SEAT, report_progress


class EnvironmentConfig(BaseModel):
    """What `--set key=value` sets. Subclass it; every field has a docstring and a sensible default."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class SandboxedConfig(EnvironmentConfig):
    """The configuration of an environment whose tools or verifier run in sandboxes."""

    sandbox: str = "auto"
    """The sandbox provider: `docker`, `process`, or the name of an installed provider; `auto` is docker if a container
    engine answers, else process.
    """
    build_network: Network = "bridge"
    """The network of a Dockerfile's instructions while an image is built: `bridge` (the network, and this machine), or
    `none`. For an environment installed from a bundle the default is `none`.
    """


ConfigT = TypeVar("ConfigT", bound=EnvironmentConfig, covariant=True, default=EnvironmentConfig)
PublicT = TypeVar("PublicT", bound=Public, covariant=True, default=Public)
SecretT = TypeVar("SecretT", bound=Secret, covariant=True, default=Secret)
AnyEnvironment = type["Environment[Any, Any, Any]"]


_NO_GROUP = SampleGroup(members=())


class Environment(Generic[ConfigT, PublicT, SecretT]):
    """Tasks, tools and a verifier.

        class Echo(Environment[EchoConfig]):
            @classmethod
            def tasks(cls, config, split, seed): ...
            @tool
            async def shout(self, text: str) -> str: ...
            async def verify(self, submission): ...

    A plain Python error raised in `setup`, a tool or `reply` is recorded as the environment's fault, one raised in
    `verify` as the verifier's; neither is ever scored 0. The text of a `ToolError` is shown to the model.
    """

    version: ClassVar[str] = "0.1.0"
    seats: ClassVar[tuple[str, ...]] = (ONLY_SEAT,)
    """Named roles, each with its own tools (`@tool(seats=...)`)."""
    takes_turns: ClassVar[bool] = False
    """Whether seats wait for each other: `reply(seat, ())` is then called before a seat's first turn, and a reply may
    take as long as the agents have time; `left` is called when a seat's player is done. See `authoring.conversation`.
    """
    submits: ClassVar[bool] = True
    """Whether a task asks for an answer: the hub then adds the tool `submit(answer)`, which seals the episode."""
    default_agent: ClassVar[str] = DEFAULT_AGENT
    """The agent that plays if a model is given and no agent: `single_turn` for tasks of one answer without tools."""
    scores_transcripts: ClassVar[bool] = False
    """Whether `verify` needs only the task and the submission: stored completions can then be scored without an
    episode.
    """
    reads_turns: ClassVar[bool] = False
    """Whether `verify` reads `submission.turns`, for example to reward single turns; with several seats they are always
    given.
    """
    scores_states: ClassVar[bool] = False
    """Whether the state at the end of the episode (`snapshot`) is stored with the rollout, and `verify` needs only what
    `restore` makes of that state: finished runs can then be scored again.
    """
    config_type: ClassVar[type[EnvironmentConfig]] = EnvironmentConfig
    checks_arguments: ClassVar[bool] = True
    """Whether the hub checks the arguments of `more_tools` against their schemas; False if the program that runs the
    tools does.
    """
    is_over = False
    """Whether `end_episode` was called."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "config_type" in vars(cls):
            return
        for base in getattr(cls, "__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, Environment):
                argument = get_args(base)[0]
                if isinstance(argument, type) and issubclass(argument, EnvironmentConfig):
                    cls.config_type = argument

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        self.task = cast("Task[PublicT, SecretT]", task)
        self.config = cast(ConfigT, config)
        self.seed = seed
        """The group's seed: samples of one task share it."""
        self.models: Mapping[str, Model] = {}
        """Role → model, for `roles`. The host sets it before `setup`, and records every call."""
        self.sandboxes: SandboxProvider | None = None
        """The provider that `open_sandbox` uses; the host sets it if the configuration is a `SandboxedConfig`."""
        self._sandbox: Sandbox | None = None
        self.group = _NO_GROUP
        """In `verify_group`: the samples' indices, the score of `verify` for each, and the lost samples."""

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """The splits of tasks, as `--split` names them; the first is the default."""
        return ("test",)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret] | BadRow]:
        """The tasks of a split, made lazily; the same arguments give the same tasks. A row that is no task is a
        `BadRow`.
        """
        raise NotImplementedError

    @classmethod
    def limits(cls, config: Any) -> Limits:
        """The limits this environment suggests; limits that the caller sets override them."""
        return Limits()

    @classmethod
    def deadlines(cls, config: Any) -> Deadlines:
        """The deadlines its tasks need, if the hub's are too short; deadlines that the caller sets override them."""
        return Deadlines()

    @classmethod
    def roles(cls, config: Any) -> tuple[str, ...]:
        """The roles of the models that the environment asks itself, such as `judge` or `user`; each must be given."""
        return ()

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """Files outside its own code that determine tasks or scores; the environment's digest includes them."""
        return ()

    @classmethod
    async def prepare(cls, config: Any) -> None:
        """Prepare what all episodes share. Runs once per process, before any other method of the class."""

    @classmethod
    def more_tools(cls, config: Any) -> Sequence[Tool]:
        """Tools that are known only at run time, such as those listed in a data file; their calls go to `call_tool`."""
        return ()

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Run one of `more_tools` or `task_tools`; the arguments are checked by its schema. May return what a
        `@tool` may.
        """
        raise NotImplementedError

    def task_tools(self) -> Sequence[Tool]:
        """Further tools of this one task; read after `setup` and after each `reply`, because a turn may add some. Their
        calls go to `call_tool`.

        Every seat has them beside the class's tools, and they are recorded with the rollout.
        """
        return ()

    @property
    def calling_seat(self) -> str:
        """The seat whose tool call is running; the first seat outside of tool calls."""
        return CALLING_SEAT.get(self.seats[0])

    def end_episode(self) -> None:
        """End the episode when the current tool call returns; the agent still gets the call's result.

        The episode is then sealed and scored as if the agent had submitted.
        """
        self.is_over = True

    async def report_progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress of the current tool call to its client, if the client asked for progress.

        The model does not see it: most clients show it to a person, or extend the call's time-out.
        """
        await report_progress(done, total, message)

    @classmethod
    def specs(cls, config: Any) -> Sequence[SandboxSpec]:
        """Sandboxes to prepare before the first episode: their images, and a few running ones in reserve."""
        return ()

    def sandbox_spec(self) -> SandboxSpec | None:
        """The sandbox that this episode's tools run in; None for no sandbox.

        The host opens it before `setup`, as `self.sandbox`. When the agent phase is over, the host kills every process
        in it, and only then calls `verify`, which may still read its files.
        """
        return None

    @property
    def sandbox(self) -> Sandbox:
        """The episode's own sandbox."""
        if self._sandbox is None:
            raise RuntimeError(f"{type(self).__name__} has no sandbox; its sandbox_spec() asks for none")
        return self._sandbox

    @sandbox.setter
    def sandbox(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def open_sandbox(
        self, spec: SandboxSpec, *, snapshot: Snapshot | None = None
    ) -> AbstractAsyncContextManager[Sandbox]:
        """Open a further, fresh sandbox, for example to verify in; it is removed when the context ends.

        Raises:
            SandboxError: no sandbox can be opened.
        """
        if self.sandboxes is None:
            raise SandboxError(f"{type(self).__name__} takes sandboxes, so its configuration must be a SandboxedConfig")
        return self.sandboxes.open(spec, snapshot=snapshot)

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """A context that one task holds around the whole episode, `setup` and `close` included; use it for a task
        group.
        """
        return nullcontext()

    async def setup(self) -> None:
        """Prepare the episode. `self.task`, `self.config` and `self.seed` are set."""

    def messages(self, seat: str) -> Sequence[Message]:
        """The conversation a seat starts from: by default the task's prompt."""
        public = self.task.public
        opening = [system(public.system)] if public.system else []
        prompt = [user(public.prompt)] if isinstance(public.prompt, str) else list(public.prompt)
        return opening + prompt

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The next user messages after the agent's, or None when the conversation is over (the default)."""
        return None

    def left(self, seat: str) -> None:
        """Called if `takes_turns` when a seat's player is done, for whatever reason; other seats may wait for it."""

    def null_reward(self) -> float:
        """The reward for doing nothing on this task, if its rules make that more than 0; `hub check` compares with
        it.
        """
        return 0.0

    def audited_files(self) -> Mapping[str, str]:
        """The texts of the task's own files (tests, solution, image) by path, for `hub audit`; none by default."""
        return {}

    def reference(self) -> Sequence[Message]:
        """A reference solution as assistant messages; empty if there is none. Never shown to an agent under test."""
        return self.task.secret.reference

    def reference_of(self, seat: str) -> Sequence[Message]:
        """The messages of one seat in the reference solution; by default those of `reference`, for every seat."""
        return self.reference()

    @classmethod
    def has_reference(cls, task: Task[Public, Secret]) -> bool | None:
        """Whether a task has a reference solution; None if only its episode can say so."""
        is_own = cls.reference is not Environment.reference or cls.reference_of is not Environment.reference_of
        return None if is_own else bool(task.secret.reference)

    def artifacts(self) -> Sequence[str]:
        """Absolute paths of files or folders in its sandbox that are collected when the episode is sealed and stored
        with the rollout.
        """
        return ()

    async def collect_artifacts(self, max_bytes: int) -> CollectedArtifacts:
        """The files that are kept when the episode is sealed, `max_bytes` together at the most, of an environment whose
        files lie elsewhere than in its sandbox. Called instead of `artifacts`, if a class overrides it.
        """
        raise NotImplementedError

    def snapshot(self) -> JsonValue | Awaitable[JsonValue]:
        """The environment's state as JSON, from which `restore` continues; may be `async def`."""
        raise NotOffered(f"{type(self).__name__} takes no snapshots")

    async def restore(self, state: JsonValue) -> None:
        """Return to the state of a snapshot; called after `setup`."""
        raise NotOffered(f"{type(self).__name__} restores no snapshots")

    @property
    def stops_at_seal(self) -> bool:
        """Whether all processes in its sandbox are killed when the agent phase is over.

        An environment whose verifier tests processes that the agent left running returns False; it must itself make
        sure that those processes cannot fake the result.
        """
        return True

    async def seal(self) -> None:
        """Stop what acts for the agent. Runs once, after the agent phase and its last calls, before `verify`."""

    def verify(self, submission: Submission) -> Awaitable[Score | float] | Score | float:
        """Score the sealed episode: a `Score`, a number (reward without a pass mark) or a bool (True is 1 and passed).

        `async def`, or plain `def`, which runs in a worker thread.
        """
        raise NotImplementedError

    def verify_group(
        self, submissions: Sequence[Submission]
    ) -> Awaitable[Sequence[Score | float]] | Sequence[Score | float]:
        """Score all samples of a task together, if a class overrides this: one score for each submission, in order.

        Runs once, when all samples of the task are over, on an instance of its own without `setup` and `lifespan`: the
        episodes are closed. It has `self.task`, `self.models`, `open_sandbox`, and `self.group`, which holds the score
        of `verify` for each sample and the lost samples. Its scores replace those of `verify`, which need not be
        written. Any error it raises is a verifier fault.
        """
        raise NotImplementedError

    @classmethod
    def scores_groups(cls) -> bool:
        """Whether the samples of a task are scored together, because the class overrides `verify_group`."""
        return cls.verify_group is not Environment.verify_group

    async def close(self) -> None:
        """Release what `setup` acquired. Runs once, also after a failure."""
