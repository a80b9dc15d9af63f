"""Measures the memory that a verifier takes: what this process grows by, and the processes that run below it.

What other tasks take at the same moment cannot be told apart, so the figure is the most that a verifier took. Memory of
containers is not in it: the container engine bounds it, as the task says.
"""

import os
import resource
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from rollouthub.errors import raise_first_error
from rollouthub.processes import descendants, stat_fields
from rollouthub.telemetry.memory import resident_bytes

SAMPLE_SECONDS = 0.25
"""Time between two looks at the processes below this one."""
_RESIDENT = 24 - 3
"""Place of the resident pages among the fields of /proc/PID/stat, of which proc(5) counts the first as 3."""


@dataclass
class VerifierMemory:
    """Memory that was taken so far."""

    peak_bytes: int = 0


@asynccontextmanager
async def measured_memory() -> AsyncGenerator[VerifierMemory]:
    """Measure the memory that is taken while the context is open (Linux only; 0 elsewhere)."""
    found = VerifierMemory()
    before, highest = resident_bytes(), _highest_bytes()
    async with raise_first_error(), anyio.create_task_group() as tasks:
        tasks.start_soon(_look, found, before)
        try:
            yield found
        finally:
            tasks.cancel_scope.cancel()
            now = _highest_bytes() if _highest_bytes() > highest else resident_bytes()
            found.peak_bytes = max(found.peak_bytes, now - before)


async def _look(found: VerifierMemory, before: int) -> None:
    below = _below()
    while True:
        await anyio.sleep(SAMPLE_SECONDS)
        grown = sum(max(0, size - below.get(pid, 0)) for pid, size in _below().items())
        found.peak_bytes = max(found.peak_bytes, grown + max(0, resident_bytes() - before))


def _below() -> dict[int, int]:
    """Process below this one → its resident bytes."""
    found: dict[int, int] = {}
    for pid in descendants(os.getpid()):
        try:
            found[pid] = int(stat_fields(pid)[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            continue  # ended meanwhile
    return found


def _highest_bytes() -> int:
    """The most that was ever resident in this process; 0 where it is not known."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if sys.platform == "linux" else 0
