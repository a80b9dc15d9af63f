"""Killing what a run has left where no PID namespace does it: every descendant, in whatever session it hides."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

PATIENCE_SECONDS = 5.0


def kill_descendants() -> bool:
    """Kill and reap every descendant of this process, which must be a subreaper; whether none is left."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        for pid in _descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not _reap():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)


def kill_user(user: int) -> None:
    """Kill every process of a user in one call, so that none can fork out of its way."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(user, user, user)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _reap() -> bool:
    """Reap what has ended; whether a child remains."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        return False
    return True


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                # The name in parentheses may hold anything, parentheses too.
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found
