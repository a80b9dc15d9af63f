"""`Environment`: one class, one file. A fresh instance per episode, so `self` is the episode."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Generic, cast, get_args, get_origin

from mcp_types import Tool
from pydantic import BaseModel, ConfigDict, JsonValue
from typing_extensions import TypeVar

from rollouthub.errors import NotOffered, SandboxError
from rollouthub.limits import Deadlines, Limits
from rollouthub.messages import Message, system, user
from rollouthub.protocols import Model
from rollouthub.sandbox import Network, Sandbox, SandboxProvider, SandboxSpec, Snapshot
from rollouthub.score import Score, Submission
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub.tools import report_progress


class EnvironmentConfig(BaseModel):
    """What `--set key=value` sets. Subclass it; every field has a docstring and a sensible default."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class SandboxedConfig(EnvironmentConfig):
    """The configuration of an environment whose tools or verifier run in sandboxes."""

    sandbox: str = "auto"
    """Where its programs run: `docker`, `process`, or the name of an installed provider; `auto` is docker where an
    engine answers, else process."""
    build_network: Network = "bridge"
    """What the instructions of a Dockerfile reach while an image is built: `bridge` (the network, and the machine), or
    `none`. Of an environment that was installed it is `none` unless you say otherwise."""


ConfigT = TypeVar("ConfigT", bound=EnvironmentConfig, covariant=True, default=EnvironmentConfig)
PublicT = TypeVar("PublicT", bound=Public, covariant=True, default=Public)
SecretT = TypeVar("SecretT", bound=Secret, covariant=True, default=Secret)
AnyEnvironment = type["Environment[Any, Any, Any]"]


class Environment(Generic[ConfigT, PublicT, SecretT]):
    """A world with tasks, tools and a verifier.

        class Echo(Environment[EchoConfig]):
            @classmethod
            def tasks(cls, config, split, seed): ...
            @tool
            async def shout(self, text: str) -> str: ...
            async def verify(self, submission): ...

    A plain Python error raised in `setup`, a tool or `reply` is the environment's fault, one raised in `verify` the
    verifier's; neither is ever scored 0. `ToolError` speaks to the model.
    """

    version: ClassVar[str] = "0.1.0"
    seats: ClassVar[tuple[str, ...]] = ("agent",)
    """Named roles, each with its own tools (`@tool(seats=...)`)."""
    submits: ClassVar[bool] = True
    """Whether a task asks for an answer: the hub then adds the tool `submit(answer)`, which seals the episode."""
    default_agent: ClassVar[str] = "tool_loop"
    """Who acts where a model is given and no agent: `single_turn` where one answer without tools is the custom."""
    scores_transcripts: ClassVar[bool] = False
    """Whether `verify` needs nothing but the task and the submission: stored completions can then be scored, too."""
    config_type: ClassVar[type[EnvironmentConfig]] = EnvironmentConfig
    checks_arguments: ClassVar[bool] = True
    """Whether the hub checks arguments of `more_tools` by their schemas; False where who runs the tool does."""
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
        """The models of `roles`, by role. The host puts them there before `setup`, and records every call."""
        self.sandboxes: SandboxProvider | None = None
        """Where `open_sandbox` takes sandboxes from; the host puts it there under a `SandboxedConfig`."""
        self._sandbox: Sandbox | None = None

    @classmethod
    def splits(cls, config: EnvironmentConfig) -> tuple[str, ...]:
        """The names `--split` takes; the first is the default."""
        return ("test",)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret] | BadRow]:
        """The tasks of a split, lazily, the same for the same arguments; a `BadRow` where a row makes no task."""
        raise NotImplementedError

    @classmethod
    def limits(cls, config: Any) -> Limits:
        """The limits this environment suggests; the caller's own win."""
        return Limits()

    @classmethod
    def deadlines(cls, config: Any) -> Deadlines:
        """The deadlines its tasks need, where the hub's own are too short; the caller's own win."""
        return Deadlines()

    @classmethod
    def roles(cls, config: Any) -> tuple[str, ...]:
        """The models it asks itself under this configuration, such as `judge` or `user`; each must be given."""
        return ()

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """Files beside its own code that make its tasks and scores: its digest covers them, too."""
        return ()

    @classmethod
    async def prepare(cls, config: Any) -> None:
        """Make ready what all episodes share. Runs once in a process, before anything else is asked of the class."""

    @classmethod
    def more_tools(cls, config: Any) -> Sequence[Tool]:
        """Tools that are known only at run time, such as those that a data file lists; calls go to `call_tool`."""
        return ()

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Run one of `more_tools`, its arguments checked by its schema; return what a `@tool` may return."""
        raise NotImplementedError

    def end_episode(self) -> None:
        """End the episode once the tool call at hand has returned; the agent still reads its result.

        The episode is then sealed and scored as if the agent had submitted.
        """
        self.is_over = True

    async def report_progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client of the tool call at hand how far it is; one that did not ask is told nothing.

        Not for the model: most clients show it to a person, or wait longer for a call that moves on.
        """
        await report_progress(done, total, message)

    @classmethod
    def specs(cls, config: Any) -> Sequence[SandboxSpec]:
        """Sandboxes to make ready before the first episode: their images, and a few warm ones."""
        return ()

    def sandbox_spec(self) -> SandboxSpec | None:
        """What this episode's tools run in, None for nothing of the kind.

        The host opens it before `setup`, as `self.sandbox`. When the agent's time is over it kills every process
        in it, and only then asks `verify`, which may still read its files.
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
        """A further sandbox, fresh, such as one to verify in; gone when the context ends.

        Raises:
            SandboxError: there is none to be had.
        """
        if self.sandboxes is None:
            raise SandboxError(f"{type(self).__name__} takes sandboxes, so its configuration must be a SandboxedConfig")
        return self.sandboxes.open(spec, snapshot=snapshot)

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        """Held around the whole episode, `setup` and `close` included, by one task: the place for a task group."""
        return nullcontext()

    async def setup(self) -> None:
        """Make the world ready. `self.task`, `self.config` and `self.seed` are there."""

    def messages(self, seat: str) -> Sequence[Message]:
        """The conversation a seat starts from: by default the task's prompt."""
        public = self.task.public
        opening = [system(public.system)] if public.system else []
        prompt = [user(public.prompt)] if isinstance(public.prompt, str) else list(public.prompt)
        return opening + prompt

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The next user messages after the agent's, or None when the conversation is over (the default)."""
        return None

    def null_reward(self) -> float:
        """What doing nothing earns on this task, where its own rules make that more than 0; `hub check` heeds it."""
        return 0.0

    def reference(self) -> Sequence[Message]:
        """A reference solution as assistant messages; empty where there is none. Never shown to an agent under test."""
        return self.task.secret.reference

    @classmethod
    def has_reference(cls, task: Task[Public, Secret]) -> bool | None:
        """Whether a task has a reference solution; None where only `reference` can tell, in its episode."""
        return bool(task.secret.reference) if cls.reference is Environment.reference else None

    def snapshot(self) -> JsonValue:
        """The world's state as JSON, restorable by `restore`."""
        raise NotOffered(f"{type(self).__name__} takes no snapshots")

    async def restore(self, state: JsonValue) -> None:
        """Return to a snapshot, after `setup`."""
        raise NotOffered(f"{type(self).__name__} restores no snapshots")

    @property
    def stops_at_seal(self) -> bool:
        """Whether all that runs in its sandbox is killed when the agent's time is over.

        A verifier that tests what the agent left running says no, and answers for what may speak for it there.
        """
        return True

    async def seal(self) -> None:
        """Stop what acts for the agent. Runs once, when its time is over and its calls have ended, before `verify`."""

    def verify(self, submission: Submission) -> Awaitable[Score | float] | Score | float:
        """Score the sealed episode: a `Score`, a bare number (no pass line) or a truth value (1 and passed, or 0).

        `async def`, or plain `def`, which runs in a worker thread.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Give back what `setup` took. Runs once, also after a failure."""
