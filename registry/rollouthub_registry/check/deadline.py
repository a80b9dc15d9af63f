"""The deadline of a check, which does not count time spent waiting for a processor."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import anyio

from rollouthub.errors import raise_first_error

CHECK_SECONDS = 120.0
"""Most seconds of a check, without the time it waited for a processor."""
WALL_SECONDS = 900.0
"""Most seconds of a check by the clock, however busy the machine is."""
_LOOK_SECONDS = 0.25
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Spent(Exception):
    """A check ran out of time; tells where its time went, in seconds."""

    wall: float
    cpu: float
    queued: float

    @property
    def says(self) -> str:
        """How long the check ran, and how much of it was computing and waiting for a processor, in words."""
        where = f"{self.cpu:.0f} s computing, {self.queued:.0f} s waiting for a processor"
        return f"not done after {self.wall:.0f} s ({where})"

    @property
    def fix(self) -> str:
        """What the author can do so that the check ends in time, depending on where the time went."""
        if self.queued > self.wall / 2:
            return "the machine is busy, which says nothing of the environment: check again when it is idle"
        if self.cpu > self.wall / 4:
            return "its own code computes for so long: check fewer tasks (--limit 2), or make it quicker"
        return "it waits for something: look for a wait without a bound in setup, a tool or verify"


async def in_time(run: Callable[[], Awaitable[_Result]]) -> _Result:
    """Run a check with a time limit.

    Raises:
        Spent: the check did not end in time.
    """
    began = _clocks()
    spent: Spent | None = None

    async def watch(everything: anyio.CancelScope) -> None:
        nonlocal spent
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            wall, cpu, queued = (now - then for now, then in zip(_clocks(), began, strict=True))
            if wall - queued > CHECK_SECONDS or wall > WALL_SECONDS:
                spent = Spent(wall, cpu, queued)
                everything.cancel()

    async with raise_first_error(), anyio.create_task_group() as tasks:
        tasks.start_soon(watch, tasks.cancel_scope)
        result = await run()
        tasks.cancel_scope.cancel()
        return result
    assert spent is not None
    raise spent


def _clocks() -> tuple[float, float, float]:
    """Seconds of the clock, of CPU time, and in the kernel's queue for a processor (0 if the kernel does not tell)."""
    try:
        queued = int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        queued = 0.0
    return time.monotonic(), time.process_time(), queued
