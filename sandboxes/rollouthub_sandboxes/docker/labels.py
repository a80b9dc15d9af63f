"""What marks a container as the hub's: who made it, and until when it may live."""

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
"""What marked the hub's before it was called rollouthub: `envhub=1`, `envhub.pid` and so on."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process, so named that no other one is ever taken for it."""

    pid: int
    started: str
    """In clock ticks since the boot."""
    boot: str
    namespace: str
    """The pid namespace; a pid says nothing outside of its own."""


def owner_of(pid: int) -> Owner:
    """The process with a pid of this machine and namespace.

    Raises:
        OSError: there is none.
    """
    started = start_of(pid)
    if started is None:
        raise ProcessLookupError(f"no process has the pid {pid}")
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Owner(pid, started, boot, str(Path("/proc/self/ns/pid").readlink()))


def this_process() -> Owner:
    """Who asks."""
    return owner_of(os.getpid())


def start_of(pid: int) -> str | None:
    """When a process started, in clock ticks; None where none has the pid, or it is dead and only not yet reaped."""
    try:
        fields = stat_fields(pid)
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def labels(owner: Owner, run: str, deadline: float, purpose: str = "sandbox") -> dict[str, str]:
    """The marks of something this owner makes; `deadline` in seconds since 1970."""
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
    """A thing's labels, those of before the hub's present name under their present names."""
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
    """Whether nobody is left who would use or remove what has these labels.

    Its deadline is over; or its owner, of the same boot and pid namespace as who asks, is gone. An owner that cannot
    be looked at from here counts as alive until the deadline, and what has no labels of ours is never a leftover.
    """
    pid, deadline = marks.get(PID, ""), marks.get(DEADLINE, "")
    if marks.get(MARK) != "1" or not pid.isdecimal() or not deadline.isdecimal():
        return False
    if (time.time() if now is None else now) > int(deadline):
        return True
    if (marks.get(BOOT), marks.get(NAMESPACE)) != (here.boot, here.namespace):
        return False
    return started(int(pid)) != marks.get(STARTED)
