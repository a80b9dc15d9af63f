"""What this process uses of its machine."""

import resource
import sys

from rollouthub.telemetry.cpu import cpu_seconds
from rollouthub.telemetry.memory import resident_bytes
from rollouthub.telemetry.metrics.process_figures import ProcessUsage

_BLOCK_BYTES = 512
"""In which Linux counts what was read and written, whatever the disk's own."""


def usage() -> ProcessUsage:
    """Of this process and of its children."""
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
    """To or from disks; /proc/self/io says the same, but not to a user whose hub hides its keys."""
    return blocks * _BLOCK_BYTES if sys.platform == "linux" else None
