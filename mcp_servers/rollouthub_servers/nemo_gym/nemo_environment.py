"""`NemoGym`: the environment class of imported resources servers; an instance is one session with a server."""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import anyio
from mcp_types import CallToolResult, Tool
from pydantic import Field, ValidationError
from pydantic_core import from_json, to_json

from rollouthub.environment import Environment, EnvironmentConfig
from rollouthub.errors import ConfigError, SandboxOverrun, TaskError, ToolError, VerifierError
from rollouthub.limits import Deadlines
from rollouthub.messages import Message, assistant
from rollouthub.score import Score, Submission
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub.tools import text_result
from rollouthub_servers.foreign.deadlines import CALL_SHARE, VERDICT_SHARE, deadlines_around, seconds_left
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.said_messages import HARMLESS
from rollouthub_servers.nemo_gym.gym_client import GymSession, VerdictFailure, fields_of, gym_session
from rollouthub_servers.nemo_gym.gym_rows import (
    GymRow,
    mcp_tools,
    read_rows,
    response_of,
    seed_request,
    tools_of_row,
    verify_request,
)
from rollouthub_servers.nemo_gym.server_record import ROWS, ServerRecord
from rollouthub_servers.nemo_gym.verdict import score_of

DRIVER = "rollouthub_servers.nemo_gym.driver"
MODULES = ("rollouthub_servers.nemo_gym.gym_serving", "rollouthub_servers.foreign.forked_serving")
_VARIABLES = {
    "WANDB_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_OFFLINE": "1",
    **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),  # threads prevent a fork
}
_SECRET_KEYS = ("reward", "reward_components")
_ERROR_BYTES, _RESULT_BYTES = 2_000, 256_000


class NemoGymConfig(EnvironmentConfig):
    """The imported server, and time limits."""

    data: str = ""
    """The folder that `hub import nemo_gym` wrote."""
    call_seconds: float = Field(default=120.0, gt=0)
    """Most seconds for a tool call."""
    verify_seconds: float = Field(default=300.0, gt=0)
    """Most seconds for the server's verifier."""
    isolation: Literal["fork", "process", "shared"] = "fork"
    """`fork`: each episode has a process of its own, forked from one that has loaded the server; a server that has
    threads by then cannot be forked, and its episodes share it. `process`: each episode starts the server anew.
    `shared`: episodes share the server, as they do where NeMo Gym serves it.
    """
    processes: int = Field(default=1, ge=1, le=64)
    """Number of processes of the server that episodes are forked from, or share; a session stays with one process."""

    @property
    def key(self) -> str:
        """What episodes have to have in common to share processes."""
        return f"{Path(self.data).absolute()}:{self.isolation}:{self.processes}"


class NemoGym(Environment[NemoGymConfig]):
    """A resources server of NeMo Gym, played unchanged (`hub import nemo_gym`)."""

    submits = False
    scores_transcripts = True
    checks_arguments = False
    runtimes: ClassVar[dict[str, ForeignRuntime]] = {}
    """Running servers by `NemoGymConfig.key`."""
    verify_fields: ClassVar[dict[str, tuple[frozenset[str], frozenset[str]]]] = {}
    """Declared keys of each server's verify request and response, by the same."""

    def __init__(self, task: Task[Public, Secret], config: NemoGymConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self._session: GymSession | None = None
        self._stack: AsyncExitStack | None = None
        self._exposed: dict[str, Any] = {}
        self._mcp_tools: dict[str, Tool] = {}

    @classmethod
    def splits(cls, config: Any) -> tuple[str, ...]:
        """The names of the server's data files."""
        return ServerRecord.read(config.data).splits if config.data else ("example",)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """One task per row, in the order of the file."""
        return read_rows(_folder(config) / ROWS / f"{split}.jsonl", split)

    @classmethod
    def deadlines(cls, config: Any) -> Deadlines:
        """Longer than its own, so that what hangs at the agent's words is seen to be the agent's."""
        call = config.call_seconds
        return deadlines_around(begin=call, call=call, verify=config.verify_seconds)

    @classmethod
    async def prepare(cls, config: Any) -> None:
        """Install the server's dependencies, start it once, and read what its verifier accepts.

        Raises:
            ConfigError: it cannot be installed or does not start.
        """
        folder = _folder(config)
        if config.key not in NemoGym.runtimes:
            record = ServerRecord.read(str(folder))
            program = await anyio.to_thread.run_sync(_program, folder, record, config.isolation)
            await cls.start(config, ForeignRuntime(program, processes=config.processes))

    @classmethod
    async def start(cls, config: NemoGymConfig, runtime: ForeignRuntime) -> None:
        """Start the server of an import, and read what its verifier accepts.

        Raises:
            ConfigError: it does not start.
        """
        try:
            async with gym_session(runtime) as session:
                NemoGym.verify_fields[config.key] = fields_of(await session.schema(), "/verify")
        except TaskError as error:
            await anyio.to_thread.run_sync(runtime.close)
            raise ConfigError(str(error)) from error
        NemoGym.runtimes[config.key] = runtime

    def _opened(self) -> AbstractAsyncContextManager[GymSession]:
        return gym_session(NemoGym.runtimes[self.config.key], is_alone=self.config.isolation == "process")

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Keep the session's connection open."""
        async with AsyncExitStack() as self._stack:
            yield

    async def setup(self) -> None:
        """Open a session and seed it with the whole row."""
        assert self._stack is not None
        self._session = await self._stack.enter_async_context(self._opened())
        await self._seed(self._session)
        if self._exposed:
            listed = await self._session.call_mcp("tools/list", {}, self._exposed, self.config.call_seconds)
            own = [tool.name for tool in tools_of_row(self._row)]
            self._mcp_tools = {tool.name: tool for tool in mcp_tools(listed) if tool.name not in own}

    async def _seed(self, session: GymSession) -> None:
        answer = await session.ask("seed_session", seed_request(self._row), self.config.call_seconds)
        exposed = answer.get("mcp")
        self._exposed = cast(dict[str, Any], exposed) if isinstance(exposed, dict) else {}

    @property
    def _row(self) -> dict[str, Any]:
        secret = self.task.secret
        assert isinstance(secret, GymRow)
        return secret.row

    def task_tools(self) -> Sequence[Tool]:
        """The tools in the row, and those that the server offers over MCP alone."""
        return [*tools_of_row(self._row), *self._mcp_tools.values()]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call the server's route for a tool of the row, or its tool over MCP."""
        assert self._session is not None
        if name in self._mcp_tools:
            params = {"name": name, "arguments": arguments}
            return mcp_result(
                await self._session.call_mcp("tools/call", params, self._exposed, self.config.call_seconds)
            )
        answer = await self._session.act(name, arguments, self.config.call_seconds)
        if answer.status != 200:
            raise ToolError(f"{name} answered {answer.status}: {answer.text[:_ERROR_BYTES]}")
        return text_result(shown(answer.text))

    async def verify(self, submission: Submission) -> Score:
        """Ask the server's own verifier, in the episode's session, or in a new one for a recorded rollout."""
        try:
            if self._session is not None:
                return await self._verdict(self._session, submission)
            async with self._opened() as session:
                await self._seed(session)
                return await self._verdict(session, submission)
        except (SandboxOverrun, VerdictFailure) as error:
            if self._session is None and isinstance(error, VerdictFailure):  # nobody plays who could have caused it
                raise VerifierError(str(error), retryable=error.retryable) from error
            if await self._fails_anyway():
                raise VerifierError(f"the verifier gives no score, whatever was said: {error}") from error
            raise SandboxOverrun(f"the verifier fails at what was said: {error}") from error
        except TaskError as error:
            raise VerifierError(str(error), retryable=error.retryable) from error

    async def _verdict(self, session: GymSession, submission: Submission) -> Score:
        row, params = self._row, self._row["responses_create_params"]
        if submission.answer is not None:  # nothing here is submitted: this is a recorded response
            try:
                response = from_json(submission.answer)
            except ValueError as error:
                raise VerifierError(f"the recorded response is no JSON: {error}", retryable=False) from error
        else:
            response = response_of(submission.transcript, len(self.messages(self.seats[0])), params)
        request = verify_request(row, response, *self.verify_fields[self.config.key])
        seconds = min(self.config.verify_seconds, seconds_left(VERDICT_SHARE))
        return score_of(await session.judge(request, seconds))

    async def _fails_anyway(self) -> bool:
        """Whether the verifier fails or ends its session at plain answers, too."""
        with anyio.move_on_after(seconds_left(CALL_SHARE)):  # what spent the time is the agent's
            for plain in ((), (assistant(HARMLESS[-1]),)):
                if not await self._fails_at(plain):
                    return False
            return True
        return False

    async def _fails_at(self, said: Sequence[Message]) -> bool:
        params = self._row["responses_create_params"]
        request = verify_request(self._row, response_of(said, 0, params), *self.verify_fields[self.config.key])
        try:
            async with self._opened() as session:
                await self._seed(session)
                await session.judge(request, self.config.verify_seconds)
        except (SandboxOverrun, VerdictFailure):
            return True
        except TaskError:
            pass
        return False


def shown(text: str) -> str:
    """The tool's response as the agent sees it, without a reward at its top level."""
    cut = text[:_RESULT_BYTES]
    if not any(f'"{key}"' in cut for key in _SECRET_KEYS):
        return cut
    try:
        value = from_json(text)
    except ValueError:
        return cut
    if not isinstance(value, dict):
        return cut
    kept = {key: each for key, each in value.items() if key not in _SECRET_KEYS}  # pyright: ignore
    return to_json(kept).decode()[:_RESULT_BYTES]


def mcp_result(result: Any) -> CallToolResult:
    """What the server's MCP route answered a call with, as the agent sees it.

    Raises:
        ToolError: it refused the call, or answered with what is no result.
    """
    fields = cast(dict[str, Any], result) if isinstance(result, dict) else dict[str, Any]()
    parts = fields.get("content")
    if not isinstance(parts, list):
        raise ToolError("the call was refused")
    texts = [str(cast(dict[str, Any], part).get("text", "")) for part in cast(list[Any], parts)]
    text = shown("\n".join(texts))
    if fields.get("isError"):
        raise ToolError(text[:_ERROR_BYTES])
    return text_result(text)


def _folder(config: Any) -> Path:
    if not config.data:
        raise ConfigError("data = '': name the folder that `hub import nemo_gym SOURCE NAME -o DIR` wrote")
    return Path(config.data).absolute()


def _program(folder: Path, record: ServerRecord, isolation: str) -> ForeignProgram:
    """The program that runs the server; its dependencies are installed if missing."""
    try:
        lock = ForeignLock.read(folder / LOCK_FILE)
    except ValidationError as error:
        raise ConfigError(f"{folder / LOCK_FILE} does not hold: {error}") from error
    home = foreign_home()
    assert lock.wheel is not None
    wheel = home.unpacked(lock.wheel)
    python = home.python(lock.dependencies)
    own = folder / record.folder if record.folder is not None else wheel / "resources_servers" / record.name
    arguments = {
        "folder": str(own),
        "name": record.instance,
        "settings": record.settings,
        "absent": list(record.absent),
        "isolation": isolation,
        "entrypoint": str(record.settings.get("entrypoint", "app.py")),
        "globals": {
            "policy_base_url": "http://127.0.0.1:1/v1",
            "policy_model_name": "policy",
            "policy_api_key": "none",
        },
    }
    return ForeignProgram(
        name=f"NeMo Gym server {record.name!r}",
        python=python,
        module=DRIVER,
        modules=MODULES,
        arguments=json.loads(json.dumps(arguments)),
        shown=(own,),
        path=(wheel,),
        variables=_VARIABLES,
    )
