"""CPU seconds of this process and all it started, living or not."""

import os
import resource
from pathlib import Path
from typing import Literal

from rollouthub.processes import descendants, stat_fields


def cpu_seconds() -> float:
    """User and system time of this process, of the children it has waited for, and (on Linux) of the living ones."""
    own, reaped = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + reaped.ru_utime + reaped.ru_stime
    return total + children_cpu_seconds()


def children_cpu_seconds() -> float:
    """User and system time of the living processes this one started (Linux alone)."""
    return sum(map(process_cpu_seconds, descendants(os.getpid())))


def queued_seconds(pid: int | Literal["self"] = "self") -> float:
    """How long a process's first thread has waited for a core so far (on Linux, where the kernel counts it)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def process_cpu_seconds(pid: int) -> float:
    """What a living process and the children it has waited for have used."""
    try:
        fields = stat_fields(pid)
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
