"""`ForeignConversation`: episodes that a foreign library plays by its own loop, where our agent is asked in place of a
model; the library scores them.

Its driver answers `begin`, `call`, `answer` and `score`, in a process of each session's own, and `{"broke": …}` where
the foreign code failed at what the agent did (`code_failures`).
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

import anyio
from mcp_types import CallToolResult, Tool
from pydantic import Field, JsonValue, ValidationError

from rollouthub.environment import Environment, EnvironmentConfig
from rollouthub.errors import ConfigError, SandboxOverrun, TaskError, ToolError, VerifierError, invalid_fields
from rollouthub.limits import Deadlines
from rollouthub.messages import Message, assistant
from rollouthub.score import Score, Submission
from rollouthub.task import Public, Secret, Task
from rollouthub.tools import shown_result, text_result
from rollouthub_servers.foreign.deadlines import CALL_SHARE, VERDICT_SHARE, deadlines_around, seconds_left
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.said_messages import HARMLESS, Seen, all_said, said_of
from rollouthub_servers.foreign.session import ForeignRefusal, ForeignSession, encoded
from rollouthub_servers.foreign.tool_names import HUB_TOOLS

CONVERSATION = Path(__file__)
"""This file, on which the scores of all its formats depend."""
_OVER = "The episode is over."


class ConversationConfig(EnvironmentConfig):
    """Settings of an imported environment: its folder and its deadlines."""

    data: str = ""
    """The folder that the import wrote."""
    begin_seconds: float = Field(default=120.0, gt=0)
    """Maximum seconds for a rollout's setup."""
    call_seconds: float = Field(default=120.0, gt=0)
    """Maximum seconds for one tool call, or one answer of the environment."""
    verify_seconds: float = Field(default=300.0, gt=0)
    """Maximum seconds to score a rollout."""


class ForeignRow(Secret):
    """A whole row of the library's data, with its answer."""

    row: dict[str, JsonValue] = {}


class ForeignConversation(Environment[ConversationConfig]):
    """What a format's class completes: which program runs, and what its verdict means (`score_of`)."""

    submits = False
    scores_transcripts = True
    checks_arguments = False
    runtimes: ClassVar[dict[str, ForeignRuntime]] = {}
    """The running processes, by the folder they were imported into."""
    hidden_calls: ClassVar[frozenset[str]] = HUB_TOOLS
    """Tools of the hub's own, whose calls are no part of what the library is told."""

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self._session: ForeignSession | None = None
        self._opening: list[Message] = []
        self._tools: list[Tool] = []
        self._is_over = False
        self._calls = 0
        self._steps: list[tuple[str, dict[str, Any]]] = []

    @classmethod
    def program(cls, folder: Path, lock: ForeignLock) -> ForeignProgram:
        """What runs an imported folder; installed where it is not. Blocks."""
        raise NotImplementedError

    def score_of(self, answer: Any) -> Score:
        """The score of what the driver says of a rollout.

        Raises:
            VerifierError: it gives none.
        """
        raise NotImplementedError

    @classmethod
    async def prepare(cls, config: Any) -> None:
        """Make its virtual environment where there is none, and load it once.

        Raises:
            ConfigError: it cannot be installed or does not load.
        """
        folder = imported_folder(config)
        if str(folder) in cls.runtimes:
            return
        lock = ForeignLock.read(folder / LOCK_FILE)
        program = await anyio.to_thread.run_sync(cls.program, folder, lock)
        await cls.start(folder, ForeignRuntime(program), config.begin_seconds)

    @classmethod
    async def start(cls, folder: Path, runtime: ForeignRuntime, seconds: float) -> None:
        """Load an environment for what was imported into a folder.

        Raises:
            ConfigError: it does not load.
        """
        try:
            async with runtime.session() as session:
                refused = await session.ask("ready", seconds=seconds)
            if refused is not None:
                raise TaskError(f"{runtime.program.name} does not load: {refused}")
        except TaskError as error:
            await anyio.to_thread.run_sync(runtime.close)
            raise ConfigError(str(error)) from error
        cls.runtimes[str(folder)] = runtime

    @classmethod
    def deadlines(cls, config: Any) -> Deadlines:
        """Longer than its own, so that what hangs at the agent's words is seen to be the agent's."""
        return deadlines_around(begin=config.begin_seconds, call=config.call_seconds, verify=config.verify_seconds)

    @property
    def _runtime(self) -> ForeignRuntime:
        return self.runtimes[str(imported_folder(self.config))]

    @property
    def _row(self) -> dict[str, Any]:
        secret = self.task.secret
        assert isinstance(secret, ForeignRow)
        return secret.row

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Hold a process that is this rollout's alone."""
        async with self._runtime.session() as session:
            self._session = session
            yield

    async def setup(self) -> None:
        """Begin the rollout."""
        seen = await self._ask("begin", self.config.begin_seconds, row=self._row, seed=self.seed)
        if seen.is_over:
            raise ConfigError(f"{self.task.id} is over before anybody acts")
        self._opening = [message.as_message() for message in seen.messages]

    async def _ask(self, do: str, seconds: float, **given: Any) -> Seen:
        assert self._session is not None
        ask = self._session.ask if do == "begin" else partial(self._session.act, what="what the agent did")
        answer = await ask(do, seconds=min(seconds, seconds_left(CALL_SHARE)), **given)
        if isinstance(answer, dict) and "broke" in answer:
            self._is_over = True
            said = f"the environment's code failed at what the agent did: {answer['broke']}"
            if await self._fails_anyway():
                raise TaskError(f"{self._session.process.program.name} also fails at an empty answer: {said}")
            raise SandboxOverrun(said)
        self._steps.append((do, given))
        try:
            seen = Seen.model_validate(answer)
        except ValidationError as error:
            raise self._session.process.fault(f"showed what is no conversation: {invalid_fields(error)}") from error
        self._is_over = seen.is_over
        if seen.tools:
            self._tools = [
                Tool(name=tool.name, description=tool.description, input_schema=_schema(tool.parameters))
                for tool in seen.tools
                if tool.name not in HUB_TOOLS - self.hidden_calls
            ]
        if taken := HUB_TOOLS.intersection(tool.name for tool in self._tools):
            raise ConfigError(f"a tool is called {min(taken)!r}, which is one of the hub's own")
        return seen

    def task_tools(self) -> Sequence[Tool]:
        """The tools that the library offers the model in this rollout."""
        return self._tools

    def messages(self, seat: str) -> Sequence[Message]:
        """The messages with which the library prompts the model."""
        return self._opening or super().messages(seat)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Have the library run one tool call."""
        if self._is_over:
            raise ToolError(_OVER)
        try:
            seen = await self._called(name, arguments)
        except ForeignRefusal as refusal:
            raise ToolError(str(refusal)) from refusal
        if seen.is_over:
            self.end_episode()
        told = [message.as_message() for message in seen.messages]
        return shown_result(told) if told else text_result(_OVER if seen.is_over else "")

    async def _called(self, name: str, arguments: dict[str, Any]) -> Seen:
        self._calls += 1
        try:
            given = {"id": f"call_{self._calls}", "name": name, "arguments": encoded(arguments).decode()}
        except RecursionError:
            raise ToolError("the arguments are nested too deeply") from None
        return await self._ask("call", self.config.call_seconds, **given)

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Return the environment's answer to a message."""
        said = [message for message in messages if message.role == "assistant"]
        if self._is_over or not said:
            return None
        words = said[-1].model_copy(update={"tool_requests": ()})
        seen = await self._ask("answer", self.config.call_seconds, message=said_of(words))
        return None if seen.is_over else [message.as_message() for message in seen.messages]

    async def verify(self, submission: Submission) -> Score:
        """The library's own score of what was said: in this rollout, or in one played again from a transcript."""
        given: dict[str, Any] = {"said": all_said(self._spoken(submission), self.hidden_calls)}
        try:
            if self._session is not None:
                return await self._scored(self._session, **given)
            async with self._runtime.session() as session:
                return await self._scored(session, **given, row=self._row)
        except SandboxOverrun as error:
            if await self._is_never_scored():
                raise VerifierError(f"there is no score, whatever was said: {error}") from error
            raise

    async def _fails_anyway(self) -> bool:
        """Whether the environment's code also fails if the agent gives a harmless answer in this place."""
        with anyio.move_on_after(seconds_left(CALL_SHARE)):  # slow steps are the agent's, too
            for words in HARMLESS:
                if not await self._fails_at(words):
                    return False
            return True
        return False

    async def _fails_at(self, words: str) -> bool:
        answer: Any = None
        try:
            async with self._runtime.session() as session:
                for do, given in (*self._steps, ("answer", {"message": said_of(assistant(words))})):
                    answer = await session.ask(do, seconds=self.config.call_seconds, **given)
        except (TaskError, ForeignRefusal):
            return True
        return isinstance(answer, dict) and "broke" in answer

    async def _is_never_scored(self) -> bool:
        """Whether scoring ends a session, or its code fails, even if nothing was said, and if a harmless answer was."""
        for said in ([], [said_of(assistant(HARMLESS[-1]))]):
            try:
                async with self._runtime.session() as session:
                    await self._scored(session, said=said, row=self._row)
                return False
            except SandboxOverrun:
                continue
            except VerifierError:
                return False
        return True

    async def _scored(self, session: ForeignSession, **given: Any) -> Score:
        """Raises: SandboxOverrun: scoring ended this session alone, or the transcript made its code fail."""
        what = "scoring what the agent said"
        try:
            seconds = min(self.config.verify_seconds, seconds_left(VERDICT_SHARE))
            answer = await session.act("score", seconds=seconds, what=what, **given)
        except SandboxOverrun:
            raise
        except TaskError as error:
            raise VerifierError(str(error), retryable=error.retryable) from error
        if isinstance(answer, dict) and "broke" in answer:
            raise SandboxOverrun(f"{what} made the environment's code fail: {answer['broke']}")
        return self.score_of(answer)

    def _spoken(self, submission: Submission) -> Sequence[Message]:
        """What the agent said: what stands before is the environment's, examples of answers included."""
        transcript = submission.transcript
        opening = self._opening or list(super().messages(self.seats[0]))
        begins = len(opening) if len(transcript) >= len(opening) else 0
        is_shown = all(one.role == other.role for one, other in zip(opening, transcript[:begins], strict=False))
        return transcript[begins:] if begins and is_shown else transcript


def imported_folder(config: Any) -> Path:
    """The folder that an import wrote.

    Raises:
        ConfigError: none is named.
    """
    if not config.data:
        raise ConfigError("data = '': name the folder `data` of a package that `hub import … -o DIR` wrote")
    return Path(config.data).absolute()


def is_number(value: Any) -> bool:
    """Whether a value of foreign code can be a reward."""
    return not isinstance(value, bool) and isinstance(value, int | float) and isfinite(value)


def _schema(parameters: dict[str, Any]) -> dict[str, Any]:
    return {**parameters, "type": "object", "properties": parameters.get("properties", {})}
