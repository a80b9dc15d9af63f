"""The labels of a hub's containers: which process created them, and until when they may live."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rollouthub.processes import stat_fields

MARK = "rollouthub"
PID, STARTED, BOOT, NAMESPACE = "rollouthub.pid", "rollouthub.started", "rollouthub.boot", "rollouthub.namespace"
RUN, DEADLINE, PURPOSE = "rollouthub.run", "rollouthub.deadline", "rollouthub.purpose"
OLD_MARK = "envhub"
"""Label of resources made before the hub was renamed to rollouthub: `envhub=1`, `envhub.pid` and so on."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, identified so that a later process with the same pid is not taken for it."""

    pid: int
    started: str
    """Start time of the process, in clock ticks since the boot."""
    boot: str
    namespace: str
    """Its pid namespace; a pid has no meaning in another one."""


def owner_of(pid: int) -> Owner:
    """The owner for a pid of this machine and pid namespace.

    Raises:
        OSError: there is no such process.
    """
    started = start_of(pid)
    if started is None:
        raise ProcessLookupError(f"no process has the pid {pid}")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Owner(pid, started, boot, str(Path("/proc/self/ns/pid").readlink()))


def this_process() -> Owner:
    """The current process as an owner."""
    return owner_of(os.getpid())


def start_of(pid: int) -> str | None:
    """When a process started, in clock ticks since the boot; None if there is none, or only its zombie."""
    try:
        fields = stat_fields(pid)
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def labels(owner: Owner, run: str, deadline: float, purpose: str = "sandbox") -> dict[str, str]:
    """The labels of a resource that `owner` creates; `deadline` in seconds since 1970."""
    return {
        MARK: "1",
        PID: str(owner.pid),
        STARTED: owner.started,
        BOOT: owner.boot,
        NAMESPACE: owner.namespace,
        RUN: run,
        DEADLINE: str(int(deadline)),
        PURPOSE: purpose,
    }


def marks_of(labels: Mapping[str, str] | None) -> dict[str, str]:
    """A resource's labels; labels with the hub's old prefix are given their present names."""
    found = {f"{MARK}{name.removeprefix(OLD_MARK)}": text for name, text in (labels or {}).items() if _is_old(name)}
    return found | dict(labels or {})


def _is_old(name: str) -> bool:
    return name == OLD_MARK or name.startswith(f"{OLD_MARK}.")


def is_leftover(
    marks: Mapping[str, str],
    here: Owner,
    now: float | None = None,
    started: Callable[[int], str | None] = start_of,
) -> bool:
    """Whether a resource with these labels may be removed, because no hub will use or remove it.

    Either its deadline has passed, or its owner had the same boot and pid namespace as `here` and is gone. An owner
    that cannot be checked from here counts as alive until the deadline. A resource without the hub's labels is never a
    leftover.
    """
    pid, deadline = marks.get(PID, ""), marks.get(DEADLINE, "")
    if marks.get(MARK) != "1" or not pid.isdecimal() or not deadline.isdecimal():
        return False
    if (time.time() if now is None else now) > int(deadline):
        return True
    if (marks.get(BOOT), marks.get(NAMESPACE)) != (here.boot, here.namespace):
        return False
    return started(int(pid)) != marks.get(STARTED)
