"""`Terminal`: tasks in the Harbor format, played in a container and graded in a fresh one."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp_types import CallToolResult, Tool
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter

from rollouthub import BadRow, Deadlines, EnvironmentConfig, Message, Public, Score, Secret, Submission, Task
from rollouthub.authoring.sandbox_state import bring_back, changes_of
from rollouthub.errors import ConfigError, DataError, NotOffered, TaskError
from rollouthub.event_loop import background_tasks
from rollouthub.messages import assistant, user
from rollouthub.sandbox import Sandbox, SandboxSpec
from rollouthub_servers.terminal.audited_files import texts_below
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import agent_spec, agent_surroundings, is_in_place, verifier_spec
from rollouthub_servers.terminal.grader import Grader
from rollouthub_servers.terminal.harbor import HarborTask, Step, find_tasks, load_task
from rollouthub_servers.terminal.harbor.task import SOLVE_SCRIPT, has_solutions
from rollouthub_servers.terminal.harbor.templates import MissingVariable, filled_in
from rollouthub_servers.terminal.health import NotBegun
from rollouthub_servers.terminal.oracle import solution_messages
from rollouthub_servers.terminal.reward import MAIN, Total, over_steps, total
from rollouthub_servers.terminal.step_grade import Grade
from rollouthub_servers.terminal.step_setup import StepRehearsal, acting_user, begin, prepare
from rollouthub_servers.terminal.step_tests import IN_PLACE
from rollouthub_servers.terminal.step_work import PUBLISHED
from rollouthub_servers.terminal.surroundings import surrounded
from rollouthub_servers.terminal.task_servers import TaskServers, task_servers
from rollouthub_servers.terminal.tests_output import SHOWN
from rollouthub_servers.terminal.timeouts import acting_seconds, deadlines_of, own_seconds
from rollouthub_servers.terminal.unsupported_features import refusals
from rollouthub_servers.terminal.workbench import Workbench

MOST_PREPARED = 16
"""With up to this many tasks, all images are built before the first episode; with more, only when needed."""
_GRADE = TypeAdapter(Grade)


class TerminalSecret(Secret):
    """The task's folder, from which tests and solution are read when they are needed."""

    folder: str
    files: str
    """Digest of all files of the task."""


class Terminal(Workbench[TerminalConfig]):
    """Work in a container, with a shell and files: any task in the Harbor format, graded in a fresh container."""

    scores_states = True

    def __init__(self, task: Task[Public, Secret], config: EnvironmentConfig, seed: int) -> None:
        super().__init__(task, config, seed)
        assert isinstance(task.secret, TerminalSecret)
        self.harbor = load_task(task.id, Path(task.secret.folder), self.config.ignore)
        self._grader = Grader(self.harbor, self.config, self.config.caller, self.open_sandbox)
        self._rehearsal = StepRehearsal(self.harbor, self.config, self.open_sandbox)
        self._beside: Mapping[str, Sandbox] = {}
        """The side-cars of the agent's container by name."""
        self._tasks: TaskGroup | None = None
        self._servers: TaskServers | None = None
        self._leave = anyio.Event()
        """Set when the connections to the task's MCP servers are to end."""
        self._solution_variables: dict[str, str] = {}
        self._is_reference = False
        """Whether the reference solution is being played."""
        self._replying = anyio.Lock()
        self._at = 0
        """Index of the agent's current step."""
        self._grades: list[Grade] = []
        """Grades of the steps before the current one."""
        self._is_over = False

    @classmethod
    def tasks(cls, config: TerminalConfig, split: str, seed: int) -> Iterator[Task[Public, Secret] | BadRow]:
        """One task per folder, in the order of ids; an unsupported task is a bad row with the reason."""
        for task_id, folder in _folders(config):
            try:
                task = load_task(task_id, folder, config.ignore)
                if reasons := refusals(task, config, config.caller()):
                    raise DataError(f"the task is refused: {'; '.join(reasons)}", folder)
                yield _task(task)
            except DataError as error:
                yield BadRow(error)

    def audited_files(self) -> Mapping[str, str]:
        """The texts of the task's tests, solution and image."""
        return texts_below(self.harbor.folder, ("environment", "tests", "solution"))

    @classmethod
    def specs(cls, config: TerminalConfig) -> Sequence[SandboxSpec]:
        """The containers of every runnable task; empty for many tasks, whose containers are prepared when needed."""
        found: dict[str, SandboxSpec] = {}
        folders = _folders(config)
        if len(folders) > MOST_PREPARED:
            return ()
        for task in _readable(folders, config):
            if not refusals(task, config, config.caller()):
                steps = [verifier_spec(task, step, config, config.caller()) for step in task.steps]
                for spec in (agent_spec(task, config, config.caller()), *steps):
                    found[spec.model_dump_json()] = spec
        return tuple(found.values())

    @classmethod
    def deadlines(cls, config: TerminalConfig) -> Deadlines:
        """The deadlines that the slowest task needs."""
        return deadlines_of(_readable(_folders(config), config), config.most_command_seconds)

    @classmethod
    def sources(cls) -> Sequence[Path]:
        """All modules of this package."""
        return sorted(Path(__file__).parent.rglob("*.py"))

    def sandbox_spec(self) -> SandboxSpec:
        """The container that the task describes."""
        return agent_spec(self.harbor, self.config, self.config.caller())

    @property
    def step(self) -> Step:
        """The agent's current step."""
        return self.harbor.steps[self._at]

    @property
    def stops_at_seal(self) -> bool:
        """Whether the agent's processes are stopped at the seal: not if the tests run beside them."""
        return not is_in_place(self.harbor, self.step, self.config)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        """Keep the task's side-cars, its MCP servers, and the proxy of its allow-list."""
        around = surrounded(self.sandbox, agent_surroundings(self.harbor, self.config), self.config, self.open_sandbox)
        async with AsyncExitStack() as stack:
            try:
                self._beside = await stack.enter_async_context(around)
            except NotBegun as error:
                raise TaskError(f"task {self.task.id!r}: {error}") from error
            self._tasks = await stack.enter_async_context(background_tasks())
            yield

    async def setup(self) -> None:
        """Create the usual folders, wait for the health check, and begin the first step."""
        try:
            await prepare(self.harbor, self.sandbox)
            await self._begin()
        except NotBegun as error:
            raise TaskError(f"task {self.task.id!r}: {error}") from error

    async def _begin(self) -> None:
        """Begin the current step.

        Raises:
            NotBegun: it cannot begin with what is in the sandbox.
        """
        step = self.step
        self.acts_as = acting_user(self.harbor, step, self.config)
        await begin(self.harbor, step, self.sandbox, self.acts_as)
        await self._connect()
        seconds = own_seconds(self.harbor, step)
        self.ends_at = None if seconds is None else anyio.current_time() + seconds

    async def _connect(self) -> None:
        """Connect to the task's MCP servers anew: those in the agent's container ended with its last step.

        Raises:
            NotBegun: one does not start, or its tools cannot be offered.
        """
        if self.harbor.settings.environment.mcp_servers:
            assert self._tasks is not None, "an episode is opened within its lifespan"
            self._leave.set()
            self._leave = anyio.Event()
            self._servers = await self._tasks.start(self._serve, self._leave)

    async def _serve(self, leave: anyio.Event, *, task_status: TaskStatus[TaskServers]) -> None:
        servers, seconds = self.harbor.settings.environment.mcp_servers, self.config.most_command_seconds
        async with task_servers(servers, self.sandbox, self.acts_as, seconds, self.config.caller()) as found:
            task_status.started(found)
            await leave.wait()

    def task_tools(self) -> Sequence[Tool]:
        """The tools of the task's own MCP servers."""
        return () if self._servers is None else self._servers.tools

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool of one of the task's own MCP servers."""
        self._seconds_left()
        assert self._servers is not None
        with self._act():
            return await self._servers.call(name, arguments)

    @property
    def longest_command(self) -> float:
        """The configured limit in seconds; for the reference solution, the agent's whole time."""
        if self._is_reference:
            return acting_seconds(self.harbor, self.step)
        return super().longest_command

    @property
    def agent_environment(self) -> dict[str, str]:
        """For the oracle, the solution's variables, which are never part of the recorded calls."""
        return self._solution_variables

    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None:
        """End the step; returns the next step's instruction, or None after the last step or a failed gate."""
        async with self._replying:  # said twice at once, it would be one step that is graded twice
            if self._is_over or self._at + 1 >= len(self.harbor.steps):
                self._is_over = True
                return None
            async with self.paused(kills=self.stops_at_seal):
                return await self._end_step()

    async def _end_step(self) -> Sequence[Message] | None:
        grade = await self._grader.grade(self.step, self.sandbox, self._beside)
        self._grades.append(grade)
        gates = self.step.section.gates
        if any(grade.rewards.get(name, float("-inf")) < least for name, least in gates.items()):
            self._is_over = True
            return None
        self._at += 1
        try:
            await self._begin()
        except NotBegun as error:
            if not await self._rehearsal.can_begin(self.step):
                why = f"step {self.step.name!r} of task {self.task.id!r} does not begin on its image either: {error}"
                raise TaskError(why, retryable=False) from error
            said = f"the step could not begin on what the agent left, though it can on the image: {error}"
            self._grades.append(Grade({self.config.reward_key or MAIN: 0.0}, said, crossed="step"))
            self._is_over = True
            return None
        return [user(self.harbor.instruction(self.step))]

    def reference(self) -> Sequence[Message]:
        """Run each step's `solve.sh`; empty if a step has none."""
        messages: list[Message] = []
        for number, step in enumerate(self.harbor.steps, start=1):
            files = self.harbor.solution(step)
            if not files:
                return ()
            try:
                self._solution_variables = filled_in(self.harbor.settings.solution.env, self.config.caller())
            except MissingVariable as error:
                raise TaskError(f"the solution of task {self.task.id!r}: {error}", retryable=False) from error
            self._is_reference = True
            messages += solution_messages(files, self.sandbox.workdir, acting_seconds(self.harbor, step), number)
            messages.append(assistant(f"Done ({SOLVE_SCRIPT})."))
        return messages

    @classmethod
    def has_reference(cls, task: Task[Public, Secret]) -> bool:
        """Whether every step has a `solve.sh`."""
        assert isinstance(task.secret, TerminalSecret)
        return has_solutions(Path(task.secret.folder))

    def artifacts(self) -> Sequence[str]:
        """The folder to which tasks publish artifacts."""
        return (PUBLISHED,)

    async def snapshot(self) -> JsonValue:
        """The current step, the grades of earlier steps, and the changes in the container.

        Raises:
            NotOffered: the step's tests run beside the agent's processes.
            SandboxFileError: the changes are too large, or contain links or devices.
        """
        if self._beside:
            raise NotOffered("what its side-cars hold is in no snapshot")
        if is_in_place(self.harbor, self.step, self.config):
            raise NotOffered("the tests look at what runs in the agent's own container, which no snapshot holds")
        changes = await changes_of(self.sandbox)
        grades = [_GRADE.dump_python(grade, mode="json") for grade in self._grades]
        return {"at": self._at, "is_over": self._is_over, "grades": grades, "changes": changes}

    async def restore(self, state: JsonValue) -> None:
        """Restore a snapshot in a fresh container of the task."""
        saved = _SavedWorld.model_validate(state)
        self._at, self._is_over = saved.at, saved.is_over
        self._grades[:] = [_GRADE.validate_python(grade) for grade in saved.grades]
        root = "0" if self.sandbox.ref.profile == "root-compat" else None
        await bring_back(self.sandbox, saved.changes, user=root)

    async def verify(self, submission: Submission) -> Score:
        """Run the tests of the current step, and combine the rewards of all steps."""
        grades = list(self._grades)
        if len(grades) == self._at:  # unless a gate was shut on the graded step
            grades.append(await self._grader.grade(self.step, self.sandbox, self._beside))
        return _score(self.harbor, self.config, grades)


class _SavedWorld(BaseModel):
    model_config = ConfigDict(extra="forbid")

    at: int
    is_over: bool
    grades: list[JsonValue]
    changes: JsonValue


def _folders(config: TerminalConfig) -> list[tuple[str, Path]]:
    if not config.data:
        raise ConfigError("no data: name a Harbor task's folder, or one that holds several, with `--set data=DIR`")
    return find_tasks(config.data)


def _readable(folders: list[tuple[str, Path]], config: TerminalConfig) -> Iterator[HarborTask]:
    for task_id, folder in folders:
        try:
            yield load_task(task_id, folder, config.ignore)
        except DataError:
            continue  # a bad row, where the tasks are listed


def _task(task: HarborTask) -> Task[Public, Secret]:
    metadata: dict[str, Any] = dict(task.shown_metadata)
    if task.is_multi_step:
        metadata["steps"] = len(task.steps)
    if task.ignored:
        metadata["ignored"] = ", ".join(task.ignored)
    public = Public(id=task.id, prompt=task.instruction(task.steps[0]), metadata=metadata)
    return Task(public, TerminalSecret(folder=str(task.folder), files=task.digest))


def _score(task: HarborTask, config: TerminalConfig, grades: Sequence[Grade]) -> Score:
    parts = [total(grade.rewards, config.reward_key) for grade in grades]
    names = [step.name or "" for step in task.steps]
    whole: Total = parts[0]
    if task.is_multi_step:
        whole = over_steps(names, parts, task.settings.multi_step_reward_strategy)
    planted = [grade.planted for grade in grades]
    taken = sorted({path for each in planted for path in (*each.restored, *each.removed)})
    doubts = [grade.suspect for grade in grades if grade.suspect is not None]
    said: list[str] = [f"suspect: {doubt}" for doubt in doubts]
    in_place = [grade for grade in grades if grade.crossed == IN_PLACE]
    if in_place:
        said.append("graded in the agent's own container: what it left running and changed there could speak for it")
    if taken:
        said.append(f"planted for the tests to run, and taken out before they did: {', '.join(taken)}")
    for name, grade in zip(names, grades, strict=False):
        said.append(f"{f'step {name}: ' if name else ''}rewards {grade.rewards}\n{grade.said.strip()}")
    if len(grades) < len(names):
        said.append(f"not reached: {', '.join(names[len(grades) :])}")
    return Score(
        reward=whole.reward,
        passed=whole.reward >= config.pass_reward,
        components=whole.components,
        metrics={
            "planted_files": float(len(taken)),
            "changed_system_files": float(max(each.system_files for each in planted)),
            "artifact_files": float(sum(grade.files for grade in grades)),
            "graded_in_place": float(len(in_place)),
        },
        suspect="; ".join(doubts) or None,
        feedback="\n".join(said)[-4 * SHOWN :],
        metadata={"crossed": ", ".join(sorted({grade.crossed for grade in grades}))},
    )
