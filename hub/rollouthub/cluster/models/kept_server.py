"""One model server process under a guard: its output, its health, its counters and its end."""

import logging
import signal
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

import anyio
from anyio.abc import Process

from rollouthub.cluster.models.server_command import Command
from rollouthub.cluster.models.server_counters import ServerCounts, read_counts
from rollouthub.http.exchange import HttpPool, open_pool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.processes import descendants, guarded
from rollouthub.store.atomic_files import replace_file

TAIL_LINES = 30
"""Number of last output lines that an error message quotes."""
_KEPT_LINES = 300
_CHATTER = (" INFO ", " DEBUG ")
"""Marks of routine log lines, which are quoted only if there are no other lines."""
_MAX_LINE = 2000
_LOG_BYTES = 8 * 2**20
_LAST_WORDS_SECONDS = 2.0
_KILL_SECONDS = 15.0


class KeptServer:
    """A running model server; made by `open_server`."""

    def __init__(self, process: Process, base_url: str, pool: HttpPool, mask: Callable[[str], str]):
        self.base_url = base_url
        self._process, self._pool, self._mask = process, pool, mask
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        self._has_said_all = anyio.Event()

    @property
    def pid(self) -> int | None:
        """The process id of the server itself, a child of its guard; None after it has ended."""
        return next(iter(descendants(self._process.pid)), None)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server's guard, which ends as the server did; None while it runs."""
        return self._process.returncode

    async def wait(self) -> None:
        """Wait until the server and all processes it started have ended."""
        await self._process.wait()

    async def last_words(self) -> str:
        """How the server ended and its last output lines, without secrets."""
        with anyio.move_on_after(_LAST_WORDS_SECONDS):
            await self._has_said_all.wait()
        return f"{_ending(self.exit_code)}" + (f"; its last words:\n{self.said}" if self.said else "; it wrote nothing")

    @property
    def said(self) -> str:
        """The last output lines, without secrets and, if possible, without routine log lines."""
        lines = [line for line in self._said if not any(mark in line for mark in _CHATTER)] or list(self._said)
        return self._mask("\n".join(lines[-TAIL_LINES:]).strip())

    async def is_well(self, seconds: float) -> bool:
        """Whether the server answers its health check within so many seconds."""
        try:
            return (await self._pool.exchange("GET", self._at("/health"), seconds=seconds)).status == 200
        except NoAnswer:
            return False

    async def counts(self, seconds: float) -> ServerCounts:
        """The server's counters from `/metrics`; all None if they cannot be read."""
        try:
            answer = await self._pool.exchange("GET", self._at("/metrics"), seconds=seconds)
            return read_counts(answer.body.decode()) if answer.status == 200 else ServerCounts()
        except (NoAnswer, UnicodeDecodeError):
            return ServerCounts()

    def _at(self, path: str) -> str:
        return self.base_url.removesuffix("/v1") + path

    async def hear(self, log: Path) -> None:
        """Read the server's output until its end: keep the last lines, and write all lines to a rotating log file."""
        assert self._process.stdout is not None
        written = _log(log)
        rest = b""
        try:
            async for chunk in self._process.stdout:
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[:_MAX_LINE]
                for line in lines:
                    text = line[:_MAX_LINE].decode(errors="replace")
                    self._said.append(text)
                    written.emit(logging.makeLogRecord({"msg": "%s", "args": (self._mask(text),)}))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._has_said_all.set()
            written.close()

    async def end(self, seconds: float) -> None:
        """Ask the server to end by closing its guard's stdin; what is left after the grace period is killed."""
        with anyio.CancelScope(shield=True):
            assert self._process.stdin is not None
            with suppress(anyio.BrokenResourceError, ConnectionError):
                await self._process.stdin.aclose()
            with anyio.move_on_after(seconds + _KILL_SECONDS):
                await self._process.wait()
                return
            self._process.kill()


def _ending(code: int | None) -> str:
    """Describe an exit code of a server's guard, with the signal's name if a signal ended the server."""
    if code is None:
        return "it still runs"
    code = 128 - code if code < 0 else code
    try:
        return f"exit code {code} ({signal.Signals(code - 128).name})" if code > 128 else f"exit code {code}"
    except ValueError:
        return f"exit code {code}"


def _log(path: Path) -> RotatingFileHandler:
    """A log file that only its user can read; with its one backup it takes at most twice `_LOG_BYTES`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    return RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")


@asynccontextmanager
async def open_server(
    command: Command, base_url: str, log: Path, grace_seconds: float, mask: Callable[[str], str]
) -> AsyncGenerator[KeptServer]:
    """Start a model server; at the end of the block it is ended with all processes it started."""
    with _private_files(command.files):
        async with _open_process(command, base_url, log, grace_seconds, mask) as server:
            yield server


@contextmanager
def _private_files(files: Mapping[str, str]) -> Generator[None]:
    """Write files that only this user can read, and remove them after the block."""
    try:
        for path, content in files.items():
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(Path(path), content.encode(), is_private=True)
        yield
    finally:
        for path in files:
            Path(path).unlink(missing_ok=True)


@asynccontextmanager
async def _open_process(
    command: Command, base_url: str, log: Path, grace_seconds: float, mask: Callable[[str], str]
) -> AsyncGenerator[KeptServer]:
    process = await anyio.open_process(
        guarded(command.argv, grace_seconds),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=command.environment,
        cwd=command.directory,
    )
    async with open_pool() as pool:
        server = KeptServer(process, base_url, pool, mask)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.hear, log)
            try:
                yield server
            finally:
                await server.end(grace_seconds)
                with anyio.CancelScope(shield=True), anyio.move_on_after(_LAST_WORDS_SECONDS):
                    await server._has_said_all.wait()  # pyright: ignore[reportPrivateUsage]
                tasks.cancel_scope.cancel()
