"""The programs that this environment runs, and their limits."""

import os
from functools import cache
from pathlib import Path

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from rollouthub.sandbox import GIB, MIB, CommandLimits, Resources, SandboxSpec

SPEC = SandboxSpec(resources=Resources(cpus=1.0, memory_bytes=2 * GIB, pids=64, disk_bytes=64 * MIB))
"""One specification for all sandboxes, so that one pool serves them; each program has tighter limits of its own."""
PYTHON = ("python3", "-I", "-X", "utf8")
"""Python in isolated mode, which imports nothing from its working folder or the user's."""
CANDIDATE, EXAMINER = ("values.py", "answer.py", "candidate.py"), ("values.py", "examiner.py")
MEMORY_BYTES = 1 * GIB
EXAMINER_MEMORY_BYTES = 2 * GIB
FILE_BYTES = 64 * MIB
WALL_FACTOR = 6.0
"""Wall seconds allowed per CPU second, so that a busy machine does not fail an answer."""

_limiter: RunVar[CapacityLimiter] = RunVar("rollouthub_code_runs")


def limit() -> CapacityLimiter:
    """The event loop's limiter for running programs and examinations, shared by all episodes: two per core."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(2 * (os.cpu_count() or 1))
        _limiter.set(limiter)
        return limiter


def limits(cpu_seconds: float, memory_bytes: int = MEMORY_BYTES) -> CommandLimits:
    """The limits of one program."""
    return CommandLimits(cpu_seconds=cpu_seconds, memory_bytes=memory_bytes, file_bytes=FILE_BYTES)


@cache
def command(files: tuple[str, ...]) -> tuple[str, ...]:
    """The command that runs these modules as one program, since a sandbox has no package to import them from.

    `site` is not imported, because that takes longer than most tests.
    """
    folder = Path(__file__).parent
    return (*PYTHON, "-S", "-c", "\n".join((folder / file).read_text() for file in files))
