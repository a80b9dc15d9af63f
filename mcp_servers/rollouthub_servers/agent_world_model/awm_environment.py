"""`AgentWorldModel`: a scenario's operations as tools, over a database of the episode's own, and its own verifier."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from anyio import to_thread
from mcp_types import Tool
from pydantic import Field, JsonValue

from rollouthub import BadRow, Environment, EnvironmentConfig, Public, Score, Submission, Task
from rollouthub.errors import ToolError
from rollouthub.values import Frozen
from rollouthub_servers.agent_world_model.scenario_files import SCENARIOS, AwmSecret, read_tasks
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import ForeignRefusal, ForeignSession

_DRIVER = "rollouthub_servers.agent_world_model.awm_driver"
_TOOLS = "rollouthub_servers.agent_world_model.openapi_tools"
_OPEN_SECONDS = 30.0
_VERIFY_SECONDS = 20.0
_STATE_SECONDS = 20.0


class AgentWorldModelConfig(EnvironmentConfig):
    """Settings: the imported scenarios, and the number of idle processes."""

    data: str
    """The folder that an import wrote."""
    idle_processes: int = Field(default=4, ge=0)
    """Maximum number of scenario processes that keep running while they are not played."""
    call_seconds: float = Field(default=10.0, gt=0)
    """Longest time for one tool call; an agent whose call computes for longer has lost the episode."""


@dataclass
class _Running:
    runtime: ForeignRuntime
    sessions: int = 0


class ScenarioPrograms:
    """The processes of scenarios, one for each scenario, started when it is first played."""

    def __init__(self, data: Path, python: Path, config: AgentWorldModelConfig) -> None:
        self._data, self._python, self._config = data, python, config
        self._running: OrderedDict[str, _Running] = OrderedDict()

    @asynccontextmanager
    async def session(self, scenario: str) -> AsyncGenerator[ForeignSession]:
        """Open a session with a scenario's process.

        Raises:
            TaskError: the process does not start, or is gone.
        """
        held = self._running.get(scenario)
        if held is None:
            held = self._running[scenario] = _Running(ForeignRuntime(self.program(scenario)))
        self._running.move_to_end(scenario)
        held.sessions += 1
        try:
            async with held.runtime.session() as session:
                yield session
        finally:
            held.sessions -= 1
            idle = [name for name, each in self._running.items() if each.sessions == 0]
            for name in idle[: max(0, len(idle) - self._config.idle_processes)]:
                await to_thread.run_sync(self._running.pop(name).runtime.close)

    def program(self, scenario: str) -> ForeignProgram:
        """The program that runs a scenario."""
        file = (self._data / SCENARIOS / f"{scenario}.json").absolute()
        return ForeignProgram(
            name=f"scenario {scenario!r}",
            python=self._python,
            module=_DRIVER,
            modules=(_TOOLS,),
            arguments={"scenario": str(file), "seconds": max(self._config.call_seconds, _VERIFY_SECONDS)},
            shown=(file,),
        )

    def has(self, scenario: str) -> bool:
        """Whether a scenario is one of the import's."""
        return (self._data / SCENARIOS / f"{scenario}.json").is_file()

    def running(self, scenario: str) -> ForeignRuntime:
        """The runtime of a scenario that is being played."""
        return self._running[scenario].runtime

    def close(self) -> None:
        """End all processes."""
        while self._running:
            self._running.popitem()[1].runtime.close()


class _SavedDatabase(Frozen):
    database: str
    """SQLite's file, packed, in base64."""


class AgentWorldModel(Environment[AgentWorldModelConfig, Public, AwmSecret]):
    """Do what a user of a web application asks for, through its operations, and answer."""

    submits = False
    scores_states = True
    checks_arguments = False
    """The application checks arguments itself and reports errors in its own words."""
    programs: ClassVar[dict[str, ScenarioPrograms]] = {}
    """Folder of an import → its programs."""

    def __init__(self, task: Task[Public, AwmSecret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        self._tools: list[Tool] = []

    @classmethod
    def tasks(cls, config: AgentWorldModelConfig, split: str, seed: int) -> Iterator[Task[Public, AwmSecret] | BadRow]:
        """Yield the imported tasks, scenario by scenario."""
        return read_tasks(Path(config.data))

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """The files of this package."""
        return sorted(Path(__file__).parent.rglob("*.py"))

    @classmethod
    async def prepare(cls, config: AgentWorldModelConfig) -> None:
        """Create the applications' virtual environment if there is none yet."""
        if config.data in cls.programs:
            return
        data = Path(config.data)
        lock = ForeignLock.read(data / LOCK_FILE)
        python = await to_thread.run_sync(lambda: foreign_home().python(lock.dependencies))
        cls.programs[config.data] = ScenarioPrograms(data, python, config)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Hold a copy of the scenario's database, in a process that is this episode's alone."""
        async with self.programs[self.config.data].session(self.task.secret.scenario) as session:
            told: dict[str, Any] = await session.ask("open", seconds=_OPEN_SECONDS)
            self._session, self._folder = session, str(told["folder"])
            self._tools = [
                Tool(name=each["name"], description=each["description"], input_schema=each["schema"])
                for each in told["tools"]
            ]
            yield

    def task_tools(self) -> Sequence[Tool]:
        """The scenario's operations as tools."""
        return self._tools

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        """Call an operation of the application."""
        session = self._session
        try:
            what = f"the call of {name!r}"
            return await session.act("call", seconds=self.config.call_seconds, what=what, name=name, given=arguments)
        except ForeignRefusal as refusal:
            raise ToolError(str(refusal)) from refusal

    async def snapshot(self) -> JsonValue:
        """The episode's database. What the application keeps in memory alone is not in it."""
        return {"database": await self._session.ask("save", seconds=_STATE_SECONDS)}

    async def restore(self, state: JsonValue) -> None:
        """Return to a database that was saved."""
        saved = _SavedDatabase.model_validate(state)
        await self._session.ask("restore", seconds=_STATE_SECONDS, database=saved.database)

    async def verify(self, submission: Submission) -> Score:
        """Score by the scenario's own verifier, which compares the databases before and after the episode in a fresh
        process.
        """
        secret = self.task.secret
        given = {"code": secret.verifier, "folder": self._folder, "answer": submission.final}
        async with self.programs[self.config.data].session(secret.scenario) as session:
            verdict = await session.ask("verify", seconds=_VERIFY_SECONDS, **given)
        is_complete = verdict == "complete"
        return Score(reward=float(is_complete), passed=is_complete, feedback=f"The verifier says: {verdict}.")
