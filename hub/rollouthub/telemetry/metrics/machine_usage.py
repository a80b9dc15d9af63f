"""CPU, memory and disk usage of this process."""

import resource
import sys

from rollouthub.telemetry.cpu import cpu_seconds
from rollouthub.telemetry.memory import resident_bytes
from rollouthub.telemetry.metrics.process_figures import ProcessUsage

_BLOCK_BYTES = 512
"""Bytes of the blocks in which Linux counts disk input and output, independent of the disk."""


def usage() -> ProcessUsage:
    """The usage of this process and of its children."""
    times = resource.getrusage(resource.RUSAGE_SELF)
    own = times.ru_utime + times.ru_stime
    return ProcessUsage(
        cpu_seconds=own,
        children_cpu_seconds=max(0.0, cpu_seconds() - own),
        resident_bytes=resident_bytes() or times.ru_maxrss * 1024,
        read_bytes=_bytes(times.ru_inblock),
        written_bytes=_bytes(times.ru_oublock),
    )


def _bytes(blocks: int) -> int | None:
    """Bytes from a count of blocks; None except on Linux. /proc/self/io has bytes too, but cannot be read if the
    hub's process hides its memory.
    """
    return blocks * _BLOCK_BYTES if sys.platform == "linux" else None
