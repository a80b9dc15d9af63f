"""Tasks in a machine with a shell: processes of this machine, behind walls, graded where the agent worked or afresh."""

import json
import py_compile
import tempfile
import zipfile
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from anyio.abc import TaskGroup, TaskStatus

from rollouthub import (
    Environment,
    Message,
    Public,
    Sandbox,
    SandboxedConfig,
    SandboxSpec,
    Secret,
    Submission,
    Task,
    ToolRequest,
    tool,
)
from rollouthub.environment import AnyEnvironment
from rollouthub.event_loop import background_tasks
from rollouthub.messages import assistant
from rollouthub.sandbox import File, SandboxFileError
from rollouthub_registry.check.defect_class import DefectClass

PYTEST = "/tmp/.runner.zip"
"""Where pytest lies once the tests run, if they want it; it is run from there as it is."""
_SECONDS = 60.0


@dataclass(frozen=True)
class MachineTask:
    """A task with a shell, and what is wrong with it."""

    name: str
    prompt: str
    solution: str
    """The commands of the reference solution."""
    check: str
    """The commands that grade."""
    reads: str = "status"
    """Where the verdict is: the `status` of the check, what it prints last (`output`), or a file with a number."""
    answer: str | None = None
    """The final answer that is right; with one, no commands grade."""
    defect: DefectClass | None = None
    also: frozenset[DefectClass] = frozenset()
    image: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that are there from the beginning, by path; those below the working folder without it."""
    tests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Files that are put there when it is graded."""
    start: str = ""
    """Commands that run before the agent comes."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of the agent's commands."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the task tells of its own files."""
    crosses: Sequence[str] = ()
    """Files of the agent's that are graded in a fresh machine; without any it is graded in the agent's own."""
    wants_pytest: bool = False


class Machines(Environment[SandboxedConfig]):
    """An environment of such tasks. A machine is opened when something is run in it."""

    scores_transcripts = True
    made: ClassVar[Mapping[str, MachineTask]] = {}
    _tasks: TaskGroup
    _machine: Sandbox | None = None

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterator[Task[Public, Secret]]:
        for name, made in cls.made.items():
            yield Task(Public(id=name, prompt=made.prompt), Secret(answer=made.answer))

    @property
    def about(self) -> MachineTask:
        return self.made[self.task.id]

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        async with background_tasks() as self._tasks:
            yield

    @tool
    async def bash(self, command: str) -> str:
        """Run a command.

        Args:
            command: The command.
        """
        if self._machine is None:
            self._machine = await self._tasks.start(self._keep)
        assert self._machine is not None
        done = await self._machine.exec(
            ["bash", "-c", f"exec 2>&1; {command}"], environment=self.about.variables, timeout_seconds=_SECONDS
        )
        return f"{done.stdout.text}[exit status {done.exit_status}]"

    async def _keep(self, *, task_status: TaskStatus[Sandbox]) -> None:
        async with self.open_sandbox(SandboxSpec()) as machine:
            await _put(machine, self.about.image)
            if self.about.start:
                done = await machine.exec(["bash", "-ec", self.about.start], timeout_seconds=_SECONDS)
                assert done.exit_status == 0, f"{self.task.id}: {done.stderr.text}"
            task_status.started(machine)
            await anyio.sleep_forever()

    def audited_files(self) -> Mapping[str, str]:
        return self.about.files

    def reference(self) -> Sequence[Message]:
        call = ToolRequest(id="1", name="bash", arguments=json.dumps({"command": self.about.solution}))
        return (assistant("", call), assistant(self.about.answer or "Done."))

    async def verify(self, submission: Submission) -> float:
        about = self.about
        if about.answer is not None:
            return float(submission.final.strip() == about.answer)
        if self._machine is None:
            return 0.0
        if not about.crosses:
            return await self._grade(self._machine)
        async with self.open_sandbox(SandboxSpec()) as fresh:
            await _put(fresh, about.image)
            for path in about.crosses:
                try:
                    content = await self._machine.read_file(_place(self._machine, path), follows_links=False)
                except SandboxFileError:
                    continue
                await fresh.write_file(_place(fresh, path), content)
            return await self._grade(fresh)

    async def _grade(self, machine: Sandbox) -> float:
        about = self.about
        await _put(machine, about.tests)
        if about.wants_pytest:
            await machine.write_file(PYTEST, pytest_in_a_file())
        done = await machine.exec(["bash", "-c", about.check], timeout_seconds=_SECONDS)
        if about.reads == "status":
            return float(done.exit_status == 0)
        text = done.stdout.text
        if about.reads != "output":
            try:
                text = (await machine.read_file(_place(machine, about.reads))).decode(errors="replace")
            except SandboxFileError:
                return 0.0
        return _number(text)


def _number(text: str) -> float:
    """The reward that a text's last line tells."""
    line = text.strip().rpartition("\n")[2]
    try:
        value: Any = json.loads(line)
        return float(value["reward"] if isinstance(value, dict) else value)  # pyright: ignore[reportUnknownArgumentType]
    except (ValueError, KeyError, TypeError):
        return 0.0


def _place(machine: Sandbox, path: str) -> str:
    return path if path.startswith("/") else f"{machine.workdir}/{path}"


async def _put(machine: Sandbox, files: Mapping[str, str]) -> None:
    placed = [
        File(_place(machine, path).removeprefix("/"), text.encode(), 0o755 if path.endswith(".sh") else 0o644)
        for path, text in files.items()
    ]
    for file in placed:
        await machine.write_file(f"/{file.path}", file.data, mode=file.mode)


@cache
def pytest_in_a_file() -> bytes:
    """pytest and what it needs, as a file that Python imports from."""
    site = Path(pytest.__file__).parent.parent
    lexers = ("__init__", "_mapping", "diff", "python", "special")
    held = BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive, tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder, "compiled")
        archive.write(site / "py.py", "py.py")
        for package in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
            for file in sorted((site / package).rglob("*.py")):
                if file.parent.name != "lexers" or file.stem in lexers:
                    place = str(file.relative_to(site))
                    py_compile.compile(str(file), str(compiled), place, doraise=True)
                    archive.write(compiled, f"{place}c")
    return held.getvalue()


def machines_of(name: str, tasks: Sequence[MachineTask]) -> AnyEnvironment:
    """An environment of these tasks."""
    by_name = {task.name: task for task in tasks}
    assert len(by_name) == len(tasks), f"names of {name} are given twice"
    return type(name, (Machines,), {"made": by_name, "__module__": __name__, "__doc__": f"Machines: {name}."})
