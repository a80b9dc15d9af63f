"""What this process uses of its machine."""

import os
import resource
import sys
from pathlib import Path

from rollouthub.telemetry.cpu import cpu_seconds
from rollouthub.telemetry.metrics.process_figures import Usage

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_BLOCK_BYTES = 512
"""In which Linux counts what was read and written, whatever the disk's own."""


def usage() -> Usage:
    """Of this process and of its children."""
    times = resource.getrusage(resource.RUSAGE_SELF)
    own = times.ru_utime + times.ru_stime
    return Usage(
        cpu_seconds=own,
        children_cpu_seconds=max(0.0, cpu_seconds() - own),
        resident_bytes=_resident(),
        read_bytes=_bytes(times.ru_inblock),
        written_bytes=_bytes(times.ru_oublock),
    )


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:  # no /proc
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _bytes(blocks: int) -> int | None:
    """To or from disks; /proc/self/io says the same, but not to a user whose hub hides its keys."""
    return blocks * _BLOCK_BYTES if sys.platform == "linux" else None
