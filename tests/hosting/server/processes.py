"""`hub serve env` and `hub serve stdio` as people and the hub start them: processes of their own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from rollouthub.hosting.launch import ServeOrder, ServerReady
from tests.cli.conftest import warm

HUB = [sys.executable, "-c", "from rollouthub.cli.main import main; main()"]
WORLDS = Path(__file__).parents[2] / "hosting" / "local" / "worlds.py"
ROOT = Path(__file__).parents[3]


class Started:
    """A process and what it says."""

    def __init__(self, process: Process) -> None:
        self.process = process
        assert process.stdout is not None
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def line(self) -> str:
        """Its next line."""
        return (await self._lines.receive_until(b"\n", 2**24)).decode()

    async def json(self) -> Any:
        """Its next line, which is JSON."""
        return json.loads(await self.line())

    async def send(self, line: bytes) -> None:
        """Give it a line."""
        assert self.process.stdin is not None
        await self.process.stdin.send(line + b"\n")

    async def rest(self) -> str:
        """What else it says, to the end."""
        said = b""
        while True:
            try:
                said += await self._lines.receive()
            except anyio.EndOfStream:
                return said.decode()

    async def hang_up(self) -> None:
        """Close its stdin."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()


def variables_with(**more: str) -> dict[str, str]:
    """This process's environment variables without those that a hub or a model's client reads."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ROLLOUTHUB_", "OPENAI_"))}
    return kept | more


def ended(*arguments: str, folder: Path, stdin: bytes = b"", **environ: str) -> subprocess.CompletedProcess[str]:
    """A `hub` command that ends by itself, in a fork of a loaded one."""
    return warm().run([*arguments], folder, variables_with(**environ), 180, stdin)


@asynccontextmanager
async def started(
    *arguments: str, log: Path | None = None, folder: Path | None = None, files: int | None = None, **environ: str
) -> AsyncGenerator[Started]:
    """A `hub` command with its pipes, in three minutes; it is killed where it does not end.

    It may have so many `files` open and not allow itself more.
    """
    limited = [] if files is None else ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]
    variables = variables_with(PYTHONPATH=str(ROOT), **environ)
    errors = subprocess.DEVNULL if log is None else log.open("wb")
    with anyio.fail_after(180):
        process = await anyio.open_process(
            [*limited, *HUB, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=variables,
            cwd=folder,
        )
        try:
            async with process:
                try:
                    yield Started(process)
                finally:
                    if process.returncode is None:
                        process.send_signal(signal.SIGKILL)
        finally:
            if not isinstance(errors, int):
                errors.close()


@asynccontextmanager
async def ordered(order: ServeOrder, log: Path | None = None) -> AsyncGenerator[tuple[Started, ServerReady]]:
    """A server the hub's way: an order on stdin, a greeting on stdout."""
    async with started("-vv", "serve-env", "--from-stdin", log=log) as server:
        await server.send(order.model_dump_json().encode())
        yield server, ServerReady.model_validate_json(await server.line())
