"""The process of an environment server: started, logged, and killed with all its children."""

import contextlib
import logging
import os
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import ByteReceiveStream, Process
from pydantic import ValidationError

from rollouthub.errors import HubError, TaskError, said
from rollouthub.hosting.control_wire import Failure, error_of
from rollouthub.hosting.launch import ServeOrder, ServerReady
from rollouthub.hosting.server_program import OURS, ServerProgram
from rollouthub.hosting.wall.walled_start import ServerStart
from rollouthub.processes import descendants, kill_group, stat_fields

logger = logging.getLogger(__name__)

START_SECONDS = 120.0
"""Seconds that a start may take: imports, data and the environment's `prepare`."""
LEAVE_SECONDS = 10.0
"""Seconds that a server gets to close its episodes and exit after its stdin was closed."""
KILL_SECONDS = 5.0
LAST_WORDS_SECONDS = 1.0
LINES_A_SECOND = 100
"""Most lines of stderr logged per second; further ones are only counted."""
_LOOK_SECONDS = 1.0
_MAX_LINE = 2**20
_MAX_SAID = 2000
_TAIL_LINES = 20
_MAX_TAIL = 500

_running: set[int] = set()
"""Process groups of the running servers, to kill them if this process exits without clean-up."""


def kill_running() -> None:
    """Kill every server at once, for a process that exits without its clean-up."""
    for group in _running:
        kill_group(group)


class ServerProcess:
    """One process, from its start to its end."""

    def __init__(
        self,
        process: Process,
        name: str,
        wall: str | None = None,
        walled: Callable[[int], int | None] = lambda started: started,
    ) -> None:
        """`wall` is the kind of wall around the server, and `walled` gives the pid that all behind it are below."""
        self._process, self._name, self._wall, self._walled = process, name, wall, walled
        self._said: deque[str] = deque(maxlen=_TAIL_LINES)
        self._has_said_all = anyio.Event()
        self._is_up = False

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.returncode is None

    def cpu_seconds(self) -> float | None:
        """CPU seconds that the process has used, all threads together; None if the system does not say.

        Behind a wall, those of all processes there.
        """
        if self._wall is None:
            return _cpu_seconds([self._process.pid])
        first = self._walled(self._process.pid)
        return None if first is None else _cpu_seconds([first, *descendants(first)])

    async def greet(self, order: ServeOrder, start_seconds: float = START_SECONDS) -> ServerReady:
        """Send the order, and wait until the server is ready.

        Raises:
            UsageError: the environment or its configuration is refused.
            TaskError: the process ended, answered something else, or took too long.
        """
        line: bytes | None = None
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope(deadline=anyio.current_time() + start_seconds) as patience:
                tasks.start_soon(self._shorten, patience)
                line = await self._exchange_greetings(order)
            tasks.cancel_scope.cancel()
        if line is None and self.is_alive:
            raise TaskError(
                f"the server of {self._name!r} was not up after {start_seconds:g} s{self._tail()}{self._wall_note}"
            )
        if line is None:
            raise TaskError(
                f"the server of {self._name!r} ended before it was up ({await self.last_words()}){self._wall_note}"
            )
        try:
            ready = ServerReady.model_validate_json(line)
        except ValidationError:
            raise self._refusal(line) from None
        self._is_up = True
        return ready

    async def _exchange_greetings(self, order: ServeOrder) -> bytes | None:
        """The first line of the server's answer to the order; None if it exits without an answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            # Without defaults: an older hub in the environment's interpreter refuses fields that it does not know.
            await self._process.stdin.send(order.model_dump_json(exclude_defaults=True).encode() + b"\n")
            return await _first_line(self._process.stdout)
        except (anyio.BrokenResourceError, anyio.EndOfStream, ConnectionError):
            with anyio.move_on_after(LAST_WORDS_SECONDS):
                await self.wait()
            return None

    async def _shorten(self, patience: anyio.CancelScope) -> None:
        """Shorten the wait for the answer once the process has ended: its children may hold the pipe open."""
        await self.wait()
        patience.deadline = min(patience.deadline, anyio.current_time() + LAST_WORDS_SECONDS)

    def _refusal(self, line: bytes) -> HubError:
        try:
            return error_of(Failure.model_validate_json(line).error)
        except ValidationError:
            return TaskError(f"the server of {self._name!r} greeted with {line[:200]!r}", retryable=False)

    async def wait(self) -> None:
        """Wait until the process has ended, even if its children hold its pipes open (asyncio's `wait` would wait
        for them).
        """
        while self.is_alive:
            with anyio.move_on_after(_LOOK_SECONDS):
                await self._process.wait()

    async def drain(self) -> None:
        """Discard its further stdout, so that the server never blocks on writing."""
        assert self._process.stdout is not None
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for _ in self._process.stdout:
                pass

    async def hear(self) -> None:
        """Log its stderr, and keep the last lines for error messages."""
        assert self._process.stderr is not None
        log = _Sparing(self._name)
        rest = b""
        try:
            async for chunk in self._process.stderr:
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[:_MAX_SAID]
                for line in lines[-_TAIL_LINES:]:
                    self._said.append(line[:_MAX_SAID].decode(errors="replace"))
                log.lines(lines)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._has_said_all.set()

    @property
    def _wall_note(self) -> str:
        """What a failed start adds to its message where the wall may be the cause."""
        if self._wall is None:
            return ""
        return (
            f"; it ran behind a wall ({self._wall}): with its own files, and no network or engine unless its env.toml "
            "declares them; --trust runs it as a plain process of yours, `hub trust add` for good"
        )

    async def finish(self) -> None:
        """Read its pipes to their ends, after `end`: behind a wall, no child of the server's holds them open."""
        if self._wall is not None:
            with anyio.CancelScope(shield=True), anyio.move_on_after(LAST_WORDS_SECONDS):
                await self.drain()
                assert self._process.stderr is not None
                with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for _ in self._process.stderr:
                        pass

    def _tail(self) -> str:
        said = "\n".join(self._said).strip()
        return f"; it said: {said[-_MAX_TAIL:]}" if said else ""

    async def last_words(self) -> str:
        """The exit code of a server that has ended, and its last lines of stderr, for which it waits a moment."""
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            await self._has_said_all.wait()
        return f"exit code {self._process.returncode}{self._tail()}"

    async def end(self, *, at_once: bool = False) -> None:
        """End the process and all its children: a server that was up gets time to exit, then everything is killed."""
        with anyio.CancelScope(shield=True):
            assert self._process.stdin is not None
            with contextlib.suppress(anyio.BrokenResourceError, ConnectionError):
                await self._process.stdin.aclose()
            if self.is_alive and not at_once:
                with anyio.move_on_after(LEAVE_SECONDS if self._is_up else LAST_WORDS_SECONDS):
                    await self.wait()
            kill_group(self._process.pid)
            with anyio.move_on_after(KILL_SECONDS):
                await self.wait()
            _running.discard(self._process.pid)
            if not self._is_up:  # else somebody drains it
                with anyio.move_on_after(LAST_WORDS_SECONDS):
                    await self.drain()


def _cpu_seconds(pids: Sequence[int]) -> float | None:
    """CPU seconds that processes have used; None if the system says it of none."""
    ticks: list[int] = []
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = stat_fields(pid)
            ticks.append(int(fields[11]) + int(fields[12]))  # proc(5): utime, stime
    return sum(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


class _Sparing:
    """Logs a server's lines, at most `LINES_A_SECOND`, and counts the rest."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._second, self._logged, self._dropped = 0.0, 0, 0

    def lines(self, lines: list[bytes]) -> None:
        """Log lines, up to the limit of this second."""
        now = time.monotonic()
        if now - self._second >= 1:
            if self._dropped:
                logger.info("%s: … and %d more lines", self._name, self._dropped)
            self._second, self._logged, self._dropped = now, 0, 0
        room = LINES_A_SECOND - self._logged
        for line in lines[:room]:
            logger.info("%s: %s", self._name, line[:_MAX_SAID].decode(errors="replace"))
        self._logged += min(room, len(lines))
        self._dropped += max(0, len(lines) - room)


async def start(name: str, program: ServerProgram = OURS, prepared: ServerStart | None = None) -> ServerProcess:
    """Start a server process in a session of its own, so that Ctrl-C reaches only the hub.

    `prepared` says how; None starts the program as a plain process.

    Raises:
        TaskError: the system cannot start the process.
    """
    command = program.command if prepared is None else prepared.command
    variables = program.environment(os.environ) if prepared is None else prepared.variables
    wall = None if prepared is None or program.wall is None else program.wall.kind
    try:
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=variables,
        )
    except OSError as error:
        raise TaskError(f"the server of {name!r} could not be started: {said(error)}") from error
    _running.add(process.pid)
    if prepared is None:
        return ServerProcess(process, name)
    return ServerProcess(process, name, wall, prepared.process)


async def _first_line(stream: ByteReceiveStream) -> bytes:
    line = b""
    while b"\n" not in line:
        if len(line) > _MAX_LINE:
            return line
        line += await stream.receive()
    return line.partition(b"\n")[0]
