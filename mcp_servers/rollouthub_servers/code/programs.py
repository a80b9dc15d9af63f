"""The programs this environment runs, and what each may use."""

import os
from functools import cache
from pathlib import Path

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from rollouthub.sandbox import GIB, MIB, CommandLimits, Resources, SandboxSpec

SPEC = SandboxSpec(resources=Resources(cpus=1.0, memory_bytes=2 * GIB, pids=64, disk_bytes=64 * MIB))
"""One for all, so that all are taken from one pool; each program has tighter limits of its own."""
PYTHON = ("python3", "-I", "-X", "utf8")
"""Isolated: nothing of its surroundings is imported."""
CANDIDATE, EXAMINER = ("values.py", "answer.py", "candidate.py"), ("values.py", "examiner.py")
MEMORY_BYTES = 1 * GIB
EXAMINER_MEMORY_BYTES = 2 * GIB
FILE_BYTES = 64 * MIB
WALL_FACTOR = 6.0
"""Wall time a program gets for each second of CPU: a busy machine fails no answer."""

_limiter: RunVar[CapacityLimiter] = RunVar("rollouthub_code_runs")


def limit() -> CapacityLimiter:
    """One limiter per event loop for the programs and examinations of all episodes: two for each core."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(2 * (os.cpu_count() or 1))
        _limiter.set(limiter)
        return limiter


def limits(cpu_seconds: float, memory_bytes: int = MEMORY_BYTES) -> CommandLimits:
    """What one program may use."""
    return CommandLimits(cpu_seconds=cpu_seconds, memory_bytes=memory_bytes, file_bytes=FILE_BYTES)


@cache
def command(files: tuple[str, ...]) -> tuple[str, ...]:
    """These modules as one program: in a sandbox there is no package to import them from.

    Without `site`, which takes longer to start than most tests to run.
    """
    folder = Path(__file__).parent
    return (*PYTHON, "-S", "-c", "\n".join((folder / file).read_text() for file in files))
