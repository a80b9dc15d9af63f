"""An environment server of the hub's own: started, watched, killed whole, and started again when it fails."""

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping

import anyio
from anyio.abc import ByteReceiveStream, Process
from pydantic import ValidationError

from envhub.errors import TaskError
from envhub.hosting.control import Failure, error_of
from envhub.hosting.launch import ServeOrder, ServerReady

logger = logging.getLogger(__name__)

START_SECONDS = 120.0
"""Imports, data and whatever the environment prepares."""
LEAVE_SECONDS = 10.0
KILL_SECONDS = 5.0
_MAX_LINE = 2**20
_TAIL_LINES = 20
_MAX_TAIL = 500
_SECRET_NAME = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_COMMAND = (sys.executable, "-c", "from envhub.cli.main import main; main()", "serve-env", "--from-stdin")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables an environment's process gets: everything but what is named like a secret."""
    return {name: value for name, value in environ.items() if not _SECRET_NAME.search(name)}


class ServerProcess:
    """One process, from its start to its end."""

    def __init__(self, process: Process, name: str) -> None:
        self._process, self._name = process, name
        self._said: deque[str] = deque(maxlen=_TAIL_LINES)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.returncode is None

    async def greet(self, order: ServeOrder) -> ServerReady:
        """Say what to serve; wait until it is served.

        Raises:
            UsageError: the environment or its configuration is refused.
            TaskError: the process ended, said something else, or took too long.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = b""
        try:
            with anyio.fail_after(START_SECONDS):
                await self._process.stdin.send(order.model_dump_json().encode() + b"\n")
                line = await _first_line(self._process.stdout)
        except TimeoutError:
            raise TaskError(
                f"the server of {self._name!r} was not up after {START_SECONDS:g} s{self._tail()}"
            ) from None
        except (anyio.BrokenResourceError, anyio.EndOfStream, BrokenPipeError, ConnectionError):
            with anyio.move_on_after(1):
                await self._process.wait()
            raise TaskError(
                f"the server of {self._name!r} ended before it was up (exit code {self._process.returncode})"
                f"{self._tail()}"
            ) from None
        try:
            return ServerReady.model_validate_json(line)
        except ValidationError:
            pass
        try:
            raise error_of(Failure.model_validate_json(line).error)
        except ValidationError:
            raise TaskError(f"the server of {self._name!r} greeted with {line[:200]!r}", retryable=False) from None

    async def wait(self) -> None:
        """Until it has ended."""
        await self._process.wait()

    async def drain(self) -> None:
        """Drop what it writes to stdout after its greeting, so that it never waits for a reader."""
        assert self._process.stdout is not None
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for _ in self._process.stdout:
                pass

    async def hear(self) -> None:
        """Take its words on stderr into the log, and keep the last lines for the message of its end."""
        assert self._process.stderr is not None
        rest = b""
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in self._process.stderr:
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[-_MAX_LINE:]
                for line in lines:
                    text = line.decode(errors="replace")[:2000]
                    self._said.append(text)
                    logger.info("%s: %s", self._name, text)

    def _tail(self) -> str:
        said = "\n".join(self._said).strip()
        return f"; it said: {said[-_MAX_TAIL:]}" if said else ""

    def why_gone(self) -> str:
        """What is known of its end."""
        return f"exit code {self._process.returncode}{self._tail()}"

    async def end(self, *, at_once: bool = False) -> None:
        """End it and whatever it started: first asked, then made to."""
        with anyio.CancelScope(shield=True):
            if self.is_alive and not at_once:
                assert self._process.stdin is not None
                with contextlib.suppress(anyio.BrokenResourceError, BrokenPipeError, ConnectionError):
                    await self._process.stdin.aclose()
                with anyio.move_on_after(LEAVE_SECONDS):
                    await self._process.wait()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with anyio.move_on_after(KILL_SECONDS):
                await self._process.wait()


async def start(name: str) -> ServerProcess:
    """Start a server process in a session of its own, so that a Ctrl-C meets the hub alone."""
    process = await anyio.open_process(
        _COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=clean_environment(os.environ),
    )
    return ServerProcess(process, name)


async def _first_line(stream: ByteReceiveStream) -> bytes:
    line = b""
    while b"\n" not in line:
        if len(line) > _MAX_LINE:
            return line
        line += await stream.receive()
    return line.partition(b"\n")[0]
