"""The command line, as people start it, and a real engine."""

import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from rollouthub_sandboxes.engine.engine import Engine, NoEngine, connect_engine
from tests.cli.conftest import Done, environment, warm

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

    async def run(*arguments: str | Path, stdin: bytes = b"", timeout: float = 180, **more: str) -> Done:
        command = [*map(str, arguments)]
        return Done(await to_thread.run_sync(warm().run, command, tmp_path, environment(**more), timeout, stdin))

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
