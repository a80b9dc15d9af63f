"""Checks of this machine's current speed: cores, load, memory, disk, event loop, clock, GPU."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import anyio

from rollouthub.analysis.checkup.check_result import Finding
from rollouthub.event_loop import run_async
from rollouthub.statistics.quantiles import quantile

LONGEST_SYNC = 0.02
"""Longest acceptable fsync in seconds (median); every batch of records waits for one."""
LONGEST_LAG = 0.02
"""Longest acceptable lag of the event loop in seconds (95th percentile); every model call suffers from a longer one."""
LEAST_MEMORY = 1 << 30
LARGEST_SKEW = 2.0
"""Largest acceptable difference in seconds between this machine's clock and the file times of its disk."""
_SYNCS, _LAGS = 8, 60


def machine_findings() -> Iterator[Finding]:
    """Run the checks of this machine's speed; takes about a quarter of a second."""
    yield _cores()
    yield from _memory()
    yield from _disk()
    yield run_async(_loop)
    yield _gpu()


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    load = os.getloadavg()[0]
    says = f"{cores} cores, load {load:.1f}" + (f", held to {quota:.1f} by its container" if quota is not None else "")
    if load > 1.5 * cores:
        return Finding("cpu", "poor", says, "others use this machine: measurements here mean little, runs are slower")
    if quota is not None and quota < cores / 2:
        return Finding("cpu", "poor", says, "give the container more CPU, or set -c and --workers for what it has")
    return Finding("cpu", "ok", says)


def _quota() -> float | None:
    """The number of cores that the container's cgroup grants; None where it sets no limit or cannot be read."""
    try:
        granted, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if granted == "max" else int(granted) / int(period)
    except (OSError, ValueError):
        return None


def _memory() -> Iterator[Finding]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return  # another system than Linux
    says = f"{free / (1 << 30):.1f} GiB available"
    if free < LEAST_MEMORY:
        yield Finding("memory", "poor", says, "lower -c, or end what else runs here")
    else:
        yield Finding("memory", "ok", says)


def _disk() -> Iterator[Finding]:
    """Measure fsync in the current folder, and compare the disk's file times with this machine's clock."""
    here = Path.cwd()
    if not os.access(here, os.W_OK):
        yield Finding("disk speed", "missing", f"{here} cannot be written to", "hub run … -o DIR")
        return
    took: list[float] = []
    with tempfile.NamedTemporaryFile(dir=here, prefix=".rollouthub-doctor-") as file:
        for _ in range(_SYNCS):
            started = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - started)
        skew = os.fstat(file.fileno()).st_mtime - time.time()
    says = f"a synced write takes {median(took) * 1e3:.1f} ms (slowest {max(took) * 1e3:.1f} ms)"
    if median(took) > LONGEST_SYNC:
        yield Finding("disk speed", "poor", says, "keep runs on a local disk: hub run … -o DIR")
    else:
        yield Finding("disk speed", "ok", says)
    if abs(skew) > LARGEST_SKEW:
        says = f"the disk here is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this machine"
        yield Finding("clock", "poor", says, "set the clocks by NTP: times of runs would not compare")
    else:
        yield Finding("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S %Z"))


async def _loop() -> Finding:
    """Measure how late the idle event loop wakes a sleeping task."""
    late: list[float] = []
    for _ in range(_LAGS):
        started = time.perf_counter()
        await anyio.sleep(0.002)
        late.append(time.perf_counter() - started - 0.002)
    worst = quantile(sorted(late), 0.95)
    says = f"wakes {median(late) * 1e3:.1f} ms late (p95 {worst * 1e3:.1f} ms) with nothing to do"
    if worst > LONGEST_LAG:
        return Finding("event loop", "poor", says, "the machine is crowded: run fewer processes beside it")
    return Finding("event loop", "ok", says)


def _gpu() -> Finding:
    if Path("/proc/driver/nvidia/gpus").is_dir() or shutil.which("nvidia-smi"):
        return Finding("gpu", "ok", "an NVIDIA driver is here")
    if Path("/dev/kfd").exists():
        return Finding("gpu", "ok", "an AMD driver is here")
    return Finding("gpu", "ok", "none: models are served elsewhere, or slowly on the CPU")
