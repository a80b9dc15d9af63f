"""`ForeignRuntime`: the processes of a foreign program, each started when it is first needed."""

import atexit
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio import to_thread

from rollouthub_servers.foreign.process import ForeignProcess
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.session import ForeignSession, connected


class ForeignRuntime:
    """Starts, shares and ends the processes of a foreign program. An environment class makes it in `prepare` and keeps
    it; the processes end with this process.

    runtime = ForeignRuntime(program, processes=2)
    async with runtime.session() as session:        # in `lifespan`, or for a single question
        await session.ask("reset", seconds=30, seed=7)
    """

    def __init__(self, program: ForeignProgram, *, processes: int = 1) -> None:
        """`processes` is the number of processes that episodes share; `alone` starts one besides for a single user."""
        self.program = program
        self._slots: list[ForeignProcess | None] = [None] * processes
        self._locks = [threading.Lock() for _ in range(processes)]
        self._next = 0
        self._all: set[ForeignProcess] = set()

    async def shared(self) -> ForeignProcess:
        """Return one of the shared processes, in turn; a dead one is replaced.

        Raises:
            TaskError: the process does not start.
            ConfigError: it cannot be started on this machine.
        """
        slot = self._next = (self._next + 1) % len(self._slots)
        process = self._slots[slot]
        if process is not None and process.is_alive:
            return process
        return await to_thread.run_sync(self._replace, slot)

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[ForeignProcess]:
        """Start a process for the block alone, and end it afterwards.

        Raises:
            TaskError: the process does not start.
            ConfigError: it cannot be started on this machine.
        """
        process = await to_thread.run_sync(self._start)
        try:
            yield process
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._end, process, "was stopped at the end of its episode")

    @asynccontextmanager
    async def session(self, *, is_alone: bool = False) -> AsyncGenerator[ForeignSession]:
        """A session with a process that speaks JSON lines (`serving.serve`); in one of its own where `is_alone`.

        Raises:
            TaskError: it does not start, or is gone.
            ConfigError: it cannot be started here.
        """
        if not is_alone:
            async with connected(await self.shared()) as session:
                yield session
            return
        async with self.alone() as process, connected(process) as session:
            yield session

    def close(self) -> None:
        """End every process; the next session starts new ones."""
        atexit.unregister(self.close)
        for process in tuple(self._all):
            self._end(process, "was stopped")

    def _replace(self, slot: int) -> ForeignProcess:
        with self._locks[slot]:
            process = self._slots[slot]
            if process is not None:
                if process.is_alive:
                    return process
                self._end(process, "ended")
            started = self._slots[slot] = self._start()
            return started

    def _start(self) -> ForeignProcess:
        process = ForeignProcess(self.program)
        if not self._all:
            atexit.register(self.close)
        self._all.add(process)
        return process

    def _end(self, process: ForeignProcess, why: str) -> None:
        process.end(why)
        self._all.discard(process)


@asynccontextmanager
async def running(program: ForeignProgram) -> AsyncGenerator[ForeignRuntime]:
    """A program that runs for the block alone."""
    runtime = ForeignRuntime(program)
    try:
        yield runtime
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(runtime.close)
