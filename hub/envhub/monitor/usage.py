"""What this process uses of its machine."""

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from envhub.monitor.figures import Usage
from envhub.observe.cpu import cpu_seconds

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def usage() -> Usage:
    """Of this process and of its children."""
    times = resource.getrusage(resource.RUSAGE_SELF)
    own = times.ru_utime + times.ru_stime
    moved = _moved()
    return Usage(
        cpu_seconds=own,
        children_cpu_seconds=max(0.0, cpu_seconds() - own),
        resident_bytes=_resident(),
        read_bytes=moved.get("read_bytes"),
        written_bytes=moved.get("write_bytes"),
    )


def _resident() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:  # no /proc
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _moved() -> Mapping[str, int]:
    """Bytes to and from disks; empty where the system does not say, or not to us."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return {}
    return {name: int(count) for name, _, count in (line.partition(": ") for line in lines)}
