"""`NemoGym`: the environment class of imported resources servers; an instance is one session with a server."""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import anyio
from mcp_types import CallToolResult, Tool
from pydantic import Field, ValidationError
from pydantic_core import from_json, to_json

from rollouthub.environment import Environment, EnvironmentConfig
from rollouthub.errors import ConfigError, TaskError, ToolError, VerifierError
from rollouthub.score import Score, Submission
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub.tools import text_result
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.nemo_gym.gym_client import GymSession, fields_of, gym_session
from rollouthub_servers.nemo_gym.gym_rows import (
    GymRow,
    read_rows,
    response_of,
    seed_request,
    tools_of_row,
    verify_request,
)
from rollouthub_servers.nemo_gym.server_record import ROWS, ServerRecord
from rollouthub_servers.nemo_gym.verdict import score_of

DRIVER = "rollouthub_servers.nemo_gym.driver"
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
    processes: int = Field(default=1, ge=1, le=64)
    """Number of processes of the server that episodes share; a session stays with one process."""


class NemoGym(Environment[NemoGymConfig]):
    """A resources server of NeMo Gym, played unchanged (`hub import nemo_gym`)."""

    submits = False
    scores_transcripts = True
    checks_arguments = False
    runtimes: ClassVar[dict[str, ForeignRuntime]] = {}
    """Running servers by the folder of the import."""
    verify_fields: ClassVar[dict[str, tuple[frozenset[str], frozenset[str]]]] = {}
    """Declared keys of each server's verify request and response, by the folder of the import."""

    def __init__(self, task: Task[Public, Secret], config: NemoGymConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self._session: GymSession | None = None
        self._stack: AsyncExitStack | None = None

    @classmethod
    def splits(cls, config: Any) -> tuple[str, ...]:
        """The names of the server's data files."""
        return ServerRecord.read(config.data).splits if config.data else ("example",)

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """One task per row, in the order of the file."""
        return read_rows(_folder(config) / ROWS / f"{split}.jsonl", split)

    @classmethod
    async def prepare(cls, config: Any) -> None:
        """Install the server's dependencies, start it once, and read what its verifier accepts.

        Raises:
            ConfigError: it cannot be installed or does not start.
        """
        folder = _folder(config)
        if str(folder) not in cls.runtimes:
            program = await anyio.to_thread.run_sync(_program, folder, ServerRecord.read(str(folder)))
            await cls.start(folder, ForeignRuntime(program, processes=config.processes))

    @classmethod
    async def start(cls, folder: Path, runtime: ForeignRuntime) -> None:
        """Start the server of an import folder, and read what its verifier accepts.

        Raises:
            ConfigError: it does not start.
        """
        try:
            async with gym_session(await runtime.shared()) as session:
                cls.verify_fields[str(folder)] = fields_of(await session.schema(), "/verify")
        except TaskError as error:
            await anyio.to_thread.run_sync(runtime.close)
            raise ConfigError(str(error)) from error
        cls.runtimes[str(folder)] = runtime

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Keep the session's connection open."""
        async with AsyncExitStack() as self._stack:
            yield

    async def setup(self) -> None:
        """Open a session and seed it with the whole row."""
        assert self._stack is not None
        runtime = self.runtimes[str(_folder(self.config))]
        self._session = await self._stack.enter_async_context(gym_session(await runtime.shared()))
        await self._seed(self._session)

    async def _seed(self, session: GymSession) -> None:
        await session.ask("seed_session", seed_request(self._row), self.config.call_seconds)

    @property
    def _row(self) -> dict[str, Any]:
        secret = self.task.secret
        assert isinstance(secret, GymRow)
        return secret.row

    def task_tools(self) -> Sequence[Tool]:
        """The tools in the row."""
        return tools_of_row(self._row)

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call the server's route for a tool of the row."""
        assert self._session is not None
        answer = await self._session.post(name, arguments, self.config.call_seconds)
        if answer.status != 200:
            raise ToolError(f"{name} answered {answer.status}: {answer.text[:_ERROR_BYTES]}")
        return text_result(shown(answer.text))

    async def verify(self, submission: Submission) -> Score:
        """Ask the server's own verifier, in the episode's session, or in a new one for a recorded rollout."""
        try:
            if self._session is not None:
                return await self._verdict(self._session, submission)
            runtime = self.runtimes[str(_folder(self.config))]
            async with gym_session(await runtime.shared()) as session:
                await self._seed(session)
                return await self._verdict(session, submission)
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
        asked, answered = self.verify_fields[str(_folder(self.config))]
        request = verify_request(row, response, asked, answered)
        return score_of(await session.ask("verify", request, self.config.verify_seconds))


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


def _folder(config: Any) -> Path:
    if not config.data:
        raise ConfigError("data = '': name the folder that `hub import nemo_gym SOURCE NAME -o DIR` wrote")
    return Path(config.data).absolute()


def _program(folder: Path, record: ServerRecord) -> ForeignProgram:
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
        arguments=json.loads(json.dumps(arguments)),
        shown=(own,),
        path=(wheel,),
        variables={"WANDB_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "HF_HUB_OFFLINE": "1"},
    )
