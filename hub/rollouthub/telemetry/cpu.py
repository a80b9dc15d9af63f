"""CPU seconds of this process and of all its child processes, running or ended."""

import os
import resource
import time
from pathlib import Path
from typing import Literal

from rollouthub.processes import descendants, stat_fields


def cpu_seconds() -> float:
    """User and system CPU seconds of this process, of its ended children, and (on Linux) of its running descendants."""
    own, reaped = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + reaped.ru_utime + reaped.ru_stime
    return total + children_cpu_seconds()


def children_cpu_seconds() -> float:
    """User and system CPU seconds of the running descendants of this process (Linux only)."""
    return sum(map(process_cpu_seconds, descendants(os.getpid())))


def queued_seconds(pid: int | Literal["self"] = "self") -> float:
    """Seconds that a process's main thread has waited for a core so far (on Linux, where the kernel counts them;
    else 0).
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def process_cpu_seconds(pid: int) -> float:
    """CPU seconds of a running process and of its ended children; 0 if it cannot be read."""
    try:
        fields = stat_fields(pid)
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def cpu_of(process_id: int) -> float:
    """CPU seconds that a process of this machine has used with all its threads, ended ones included."""
    # Linux's number for the CPU clock of a process, as glibc's clock_getcpuclockid makes it.
    return time.clock_gettime_ns((~process_id << 3) | 2) / 1e9
