"""Starts processes of which none is left: not when they are through, and not when this one is ended or killed."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

import anyio
from anyio.abc import Process

from rollouthub.processes import IMPORT_SETTINGS, guarded, kill_group
from tests.gpu.cells import MISSING
from tests.gpu.rows import Missing, PartError

ROOT = Path(__file__).parents[2]
GRACE_SECONDS = 10.0
"""What a process gets to end by itself, before it is killed."""
LAST_BYTES = 1_500
"""Of a log, as an error shows it."""
_VARIABLES = {
    **IMPORT_SETTINGS,
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "true",
}


@asynccontextmanager
async def running(
    command: Sequence[str],
    said: IO[bytes],
    *,
    stdout: IO[bytes] | int,
    environment: Mapping[str, str],
    directory: Path,
    grace_seconds: float = GRACE_SECONDS,
) -> AsyncGenerator[Process]:
    """Run a command until the block is left, then end it and all processes below it. `said` takes its stderr."""
    # The guard ends them, also when this process is killed: its stdin is closed then.
    process = await anyio.open_process(
        guarded(command, grace_seconds),
        stdout=stdout,
        stderr=said,
        env=dict(environment),
        cwd=directory,
        start_new_session=True,  # Ctrl-C is for us alone
    )
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            if process.stdin is not None:
                await process.stdin.aclose()
            with anyio.move_on_after(grace_seconds + 15):
                await process.wait()
            if process.returncode is None:
                kill_group(process.pid)
            with suppress(anyio.BrokenResourceError):
                await process.aclose()


async def run_cell(
    module: str, given: Mapping[str, Any], log: Path, *, variables: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run a cell of this package in a process of its own; returns what it found. Its words go to `log`.

    Raises:
        Missing: the cell says what is not here.
        PartError: it failed.
    """
    command = [sys.executable, "-m", f"tests.gpu.{module}", json.dumps(given)]
    environment = {**_VARIABLES, **os.environ, **(variables or {}), "PYTHONUNBUFFERED": "1"}
    with log.open("ab") as said:
        said.write(f"\n$ {' '.join(command[1:])}\n".encode())
        said.flush()
        async with running(command, said, stdout=subprocess.PIPE, environment=environment, directory=ROOT) as process:
            assert process.stdout is not None
            out = b"".join([piece async for piece in process.stdout])
            code = await process.wait()
    if code:
        raise PartError(f"{module} ended with {code}: {last_words(log)}")
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    if MISSING in found:
        raise Missing(found[MISSING])
    return found


def last_words(log: Path) -> str:
    """The end of a log, on one line."""
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - LAST_BYTES, 0))
        return " ".join(file.read().decode(errors="replace").split())
