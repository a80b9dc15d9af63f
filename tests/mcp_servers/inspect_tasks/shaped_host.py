"""Inspect's environment over a library of its shape."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rollouthub import Deadlines, Score, Submission
from rollouthub.hosting.open_host import open_in_process
from rollouthub.messages import Message, assistant
from rollouthub.protocols import EnvironmentHost, Episode
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.inspect import Inspect, InspectConfig
from rollouthub_servers.inspect.task_record import RECORD, SAMPLES, TaskRecord
from rollouthub_servers.inspect.task_source import DRIVER, MODULES
from tests.mcp_servers.garbling import FOLDER as GARBLING

LIBRARY = Path(__file__).with_name("library")
CANARY = "canary-41fd"
TASKS = "shaped_tasks.py"


def program(kind: str | None) -> ForeignProgram:
    """The driver over the library, on the hub's own interpreter; without a kind it describes what it is asked for."""
    place: Any = None if kind is None else {"module": "shaped_tasks", "task": "shaped", "args": {"kind": kind}}
    return ForeignProgram(
        name=f"Inspect task {kind!r}",
        python=Path(sys.executable),
        module=DRIVER,
        modules=MODULES,
        arguments={"place": place, "datasets": {}, "absent": []},
        path=(LIBRARY, GARBLING),
        ping_seconds=0.5,
    )


async def asked(kind: str | None, do: str, **given: Any) -> Any:
    """What a driver answers."""
    runtime = ForeignRuntime(program(kind))
    try:
        async with runtime.session() as session:
            return await session.ask(do, seconds=10, **given)
    finally:
        runtime.close()


def write_folder(folder: Path, lines: list[str]) -> Path:
    """What an import leaves of a task, but for its lock and code."""
    (folder / SAMPLES).write_text("".join(line + "\n" for line in lines) + "null\n")
    record = TaskRecord(name="shaped", place={}, count=4, has_ids=True)
    (folder / RECORD).write_text(record.model_dump_json())
    return folder


@asynccontextmanager
async def hosted(
    folder: Path, kind: str, kept: type[Inspect] = Inspect, **settings: Any
) -> AsyncGenerator[EnvironmentHost]:
    """The environment, its library running behind walls."""
    runtime = ForeignRuntime(program(kind))
    try:
        await Inspect.start(folder, runtime, 10)
        config = InspectConfig(data=str(folder), call_seconds=1.0, verify_seconds=1.0, **settings)
        async with open_in_process("shaped", kept, config) as host:
            yield host
    finally:
        Inspect.runtimes.pop(str(folder), None)
        runtime.close()


@asynccontextmanager
async def opened(host: EnvironmentHost, name: str = "1", deadlines: Deadlines | None = None) -> AsyncGenerator[Episode]:
    """An episode of a sample."""
    card = await host.find_task("test", name, 0)
    async with host.open(card, seed=0, deadlines=deadlines or Deadlines()) as episode:
        yield episode


def text_of(result: Any) -> str:
    """The words of a tool's result."""
    return "".join(block.text for block in result.content)


async def scored(episode: Episode, *said: Message, answer: str | None = None) -> Score:
    """Its score for what was said."""
    return await episode.verify(Submission(transcript=(*episode.seats["agent"].messages, *said), answer=answer))


async def said_once(host: EnvironmentHost, words: str) -> Score:
    """The score of one message."""
    async with opened(host) as episode:
        await episode.seats["agent"].reply([assistant(words)])
        return await scored(episode, assistant(words))
