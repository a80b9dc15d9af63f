"""CPU time of a program and all that it has started."""

import os
from pathlib import Path


def cpu_seconds(root: int | None = None) -> float:
    """What a process, this one by default, and all below it have used so far, those that have ended included.

    It never falls, as each process that ends is waited for by one that is counted.
    """
    found: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(entry.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below: dict[int, list[int]] = {}
    for pid, (parent, _) in found.items():
        below.setdefault(parent, []).append(pid)
    ticks, waiting = 0, [root or os.getpid()]
    while waiting:
        pid = waiting.pop()
        ticks += found[pid][1] if pid in found else 0
        waiting += below.get(pid, [])
    return ticks / os.sysconf("SC_CLK_TCK")
