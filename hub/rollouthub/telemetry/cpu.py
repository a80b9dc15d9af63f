"""CPU seconds of this process and all it started, living or not."""

import os
import resource
from pathlib import Path
from typing import Literal


def cpu_seconds() -> float:
    """User and system time of this process, of the children it has waited for, and (on Linux) of the living ones."""
    own, reaped = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + reaped.ru_utime + reaped.ru_stime
    return total + children_cpu_seconds()


def children_cpu_seconds() -> float:
    """User and system time of the living processes this one started (Linux alone)."""
    return sum(map(process_cpu_seconds, _children(os.getpid())))


def queued_seconds(pid: int | Literal["self"] = "self") -> float:
    """How long a process's first thread has waited for a core so far (on Linux, where the kernel counts it)."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _children(pid: int) -> list[int]:
    """Living descendants."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in map(int, listing.read_text().split()):
                found += [child, *_children(child)]
        except OSError:
            continue  # the thread or the process ended while we looked
    return found


def process_cpu_seconds(pid: int) -> float:
    """What a living process and the children it has waited for have used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
