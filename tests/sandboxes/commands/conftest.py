"""The command line, as people start it, and a real engine."""

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from envhub_sandboxes.docker.engine import Engine, NoEngine, connect_engine
from tests.cli.conftest import HUB, Done, environment

NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
AsyncHub = Callable[..., Coroutine[Any, Any, Done]]


@pytest.fixture
async def engine() -> AsyncGenerator[Engine]:
    """The engine that answers; skipped aloud where none does."""
    try:
        async with connect_engine() as engine:
            yield engine
    except NoEngine as error:
        pytest.skip(f"no container engine: {error}")


@pytest.fixture
def hub(tmp_path: Path) -> AsyncHub:
    """Runs `hub` with arguments in the test's folder, beside the test's own tasks."""

    async def run(*arguments: str | Path, stdin: bytes = b"", timeout: float = 60, **more: str) -> Done:
        import subprocess

        with anyio.fail_after(timeout):
            done = await anyio.run_process(
                [*HUB, *map(str, arguments)], input=stdin, cwd=tmp_path, env=environment(**more), check=False
            )
        return Done(subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode()))

    return run


@contextmanager
def terminal(rows: int, columns: int) -> Generator[tuple[int, int]]:
    """A pseudo-terminal of a size: our end and the program's."""
    import fcntl
    import struct
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)
