"""A run in this process, whose agents wait where a test wants them, and its door."""

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest
from pydantic import JsonValue

from rollouthub import Message, Rollout, Seat, Stop, ToolRequest
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.live.control.live_client import LiveClient, knock
from rollouthub.live.control.live_server import open_live_server
from rollouthub.live.control.socket_folder import find_sockets, socket_folders
from rollouthub.messages import assistant
from rollouthub.models.credentials import Credentials
from rollouthub.store import open_run

HALL = Path(__file__).parent / "hall.py"
PATIENCE_SECONDS = 60.0
"""The most that any wait of a test takes, also for containers on a crowded machine."""


async def until(claim: Callable[[], object]) -> None:
    """Wait until something holds."""
    with anyio.fail_after(PATIENCE_SECONDS):
        while not claim():
            await anyio.lowlevel.checkpoint()


class Guest:
    """Looks once, then waits at the gate; behind it, it speaks until it is stopped, or once."""

    name = "guest"
    version = "1"
    config: dict[str, JsonValue] = {}

    def __init__(self, says: str = "hello", *, is_open: bool = False, talks: bool = False) -> None:
        self._says, self._talks = says, talks
        self.gate = anyio.Event()
        self.waiting = 0
        if is_open:
            self.gate.set()

    async def play(self, seat: Seat) -> Stop:
        """Look, wait, speak."""
        request = ToolRequest(id="1", name="look", arguments="{}")
        seat.say(seat.messages, assistant(self._says, request))
        await seat.call_tools([request])
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
        conversation: list[Message] = list(seat.messages)
        while True:
            seat.say(conversation, assistant("bye"))
            if not self._talks:
                return Stop.FINISHED
            await anyio.lowlevel.checkpoint()


@dataclass
class Watched:
    """A run that plays, and how to get at it."""

    live: LiveRun
    stop: StopSignal
    directory: Path
    environ: dict[str, str]
    warnings: list[str]
    over: anyio.Event

    @property
    def sockets(self) -> list[Path]:
        """Where it can be reached."""
        return find_sockets(socket_folders(self.environ)[:1])

    def knock(self) -> AbstractAsyncContextManager[LiveClient]:
        """Go in."""
        return knock(self.sockets[0])

    def ids(self) -> list[str]:
        """The rollouts in flight."""
        return list(self.live.attempts)

    def records(self) -> dict[str, list[Rollout]]:
        """What is in the store, by rollout."""
        found: dict[str, list[Rollout]] = {}
        with open_run(self.directory) as reader:
            for rollout in reader.rollouts(effective=False):
                found.setdefault(rollout.rollout_id, []).append(rollout)
        return found


class _Quiet:
    """Watches nothing."""

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None: ...
    def committed(self, rollouts: Sequence[Rollout]) -> None: ...
    def stopped(self, reason: str) -> None: ...


class Ender:
    """Ends a run as the command line does."""

    def __init__(self, stop: StopSignal, scope: anyio.CancelScope) -> None:
        self._stop, self._scope = stop, scope

    def interrupt(self) -> None:
        self._stop.set()

    def cancel(self) -> None:
        self._stop.set()
        self._scope.cancel()


@pytest.fixture
def runtime() -> Generator[Path]:
    """A runtime folder with a short name: a socket's path has little room."""
    folder = Path(tempfile.mkdtemp(prefix="hub", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


Watch = Callable[..., AbstractAsyncContextManager[Watched]]


@pytest.fixture
def watch(tmp_path: Path, runtime: Path) -> Watch:
    """Starts a run, and leaves it when the block ends."""

    @asynccontextmanager
    async def watched(
        guest: Guest | None, *, limit: int = 3, concurrency: int = 3, resume: bool = False, **more: object
    ) -> AsyncGenerator[Watched]:
        request = RunRequest.model_validate(
            {"environments": [str(HALL)], "agent": "null", "limit": limit, "concurrency": concurrency, **more}
        )
        plan = make_plan(request)
        if guest is not None:
            plan = replace(plan, agent=guest, agent_name=guest.name)
        stop, scope = StopSignal(), anyio.CancelScope()
        live = LiveRun(stop, Ender(stop, scope))
        environ = {"XDG_RUNTIME_DIR": str(runtime)}
        run = Watched(live, stop, tmp_path / "run", environ, [], anyio.Event())

        async def play() -> None:
            async with open_live_server(live, environ, run.warnings.append):
                with scope:
                    await play_run(
                        plan,
                        run.directory,
                        given="",
                        resume=resume,
                        credentials=Credentials({}),
                        observer=_Quiet(),
                        stop=stop,
                        live=live,
                    )
            run.over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await until(lambda: run.over.is_set() or run.warnings or run.sockets)
            yield run
            if guest is not None:
                guest.gate.set()
            with anyio.fail_after(PATIENCE_SECONDS):
                await run.over.wait()

    return watched


IS_ROOT = os.geteuid() == 0
