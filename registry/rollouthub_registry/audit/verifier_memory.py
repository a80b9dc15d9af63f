"""Measures the memory that a verifier takes: what this process grows by, and the processes that run below it.

What other tasks take at the same moment cannot be told apart, so the figure is the most that a verifier took. Memory of
containers is not in it: the container engine bounds it, as the task says.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from rollouthub.errors import raise_first_error
from rollouthub.processes import descendants, stat_fields
from rollouthub.telemetry.memory import resident_bytes

SAMPLE_SECONDS = 0.25
"""Time between two looks at the processes below this one."""
_RESIDENT = 24 - 3
"""Place of the resident pages among the fields of /proc/PID/stat, of which proc(5) counts the first as 3."""
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(eq=False)
class VerifierMemory:
    """Memory that was taken so far."""

    before_bytes: int
    """What was resident in this process at the beginning."""
    peak_bytes: int = 0

    def saw(self, resident: int, below: int = 0) -> None:
        """Take account of what is, or was for a moment, resident in this process, and of what those below it took."""
        self.peak_bytes = max(self.peak_bytes, below + max(0, resident - self.before_bytes))


_open: set[VerifierMemory] = set()
"""Measurements that are under way: the kernel keeps one peak for all of them."""


@asynccontextmanager
async def measured_memory() -> AsyncGenerator[VerifierMemory]:
    """Measure the memory that is taken while the context is open (Linux only; 0 elsewhere)."""
    _tell_peak()
    found = VerifierMemory(resident_bytes())
    _open.add(found)
    try:
        async with raise_first_error(), anyio.create_task_group() as tasks:
            tasks.start_soon(_look, found)
            try:
                yield found
            finally:
                tasks.cancel_scope.cancel()
    finally:
        _tell_peak()
        _open.discard(found)


def _tell_peak() -> None:
    """Tell all open measurements the most that was resident in this process, and let the kernel count it anew."""
    highest = resident_bytes()
    with suppress(OSError, StopIteration, IndexError, ValueError):
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        # https://docs.kernel.org/filesystems/proc.html: 5 resets the peak. Where it cannot be reset it is not known.
        _CLEAR.write_text("5")
        highest = max(highest, int(line.split()[1]) * 1024)
    for each in _open:
        each.saw(highest)


async def _look(found: VerifierMemory) -> None:
    before = _below()
    while True:
        await anyio.sleep(SAMPLE_SECONDS)
        found.saw(resident_bytes(), sum(max(0, size - before.get(pid, 0)) for pid, size in _below().items()))


def _below() -> dict[int, int]:
    """Process below this one → its resident bytes."""
    found: dict[int, int] = {}
    for pid in descendants(os.getpid()):
        with suppress(OSError, IndexError, ValueError):  # one that ended meanwhile
            found[pid] = int(stat_fields(pid)[_RESIDENT]) * os.sysconf("SC_PAGE_SIZE")
    return found
