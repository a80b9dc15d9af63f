"""Runs one command and leaves nothing of it behind. A program of its own, on the standard library alone.

`guard.py GRACE COMMAND ARGUMENT…`: stdout and stderr are the command's. When stdin ends, or on SIGTERM, the command is
asked to go with SIGTERM; GRACE seconds later, or when it has gone by itself, every process below is killed, those that
left its session too: orphans come back to this process, which is their reaper. Where stdin is /dev/null only SIGTERM
asks. The exit status is the command's own.
"""

import contextlib
import ctypes
import os
import select
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.01
NOT_STARTED = 127


def main(grace: float, command: list[str]) -> int:
    """Run a command to its end, or until it is to end."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this kernel has no subreapers")
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    asked: list[int] = []
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # the wake-up pipe says all
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    def as_before() -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # should this guard itself be killed

    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=as_before)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return NOT_STARTED
    sys.stdout.close()
    status = _wait(child.pid, wake, asked)
    if status is None:
        os.kill(child.pid, signal.SIGTERM)
        end = time.monotonic() + grace
        while status is None and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            status = _reap(child.pid)
    _kill_all()
    return 128 + signal.SIGTERM if status is None else status


def _wait(pid: int, wake: int, asked: list[int]) -> int | None:
    """The child's exit status, as `subprocess` gives it; None where it is to end before."""
    # /dev/null is always readable and always at its end.
    watched = [wake] if stat.S_ISCHR(os.fstat(0).st_mode) else [0, wake]
    while True:
        status = _reap(pid)
        if status is not None:
            return status
        if asked:
            return None
        ready, _, _ = select.select(watched, [], [])
        if wake in ready:
            os.read(wake, 4096)
        if 0 in ready and not os.read(0, 4096):
            return None


def _reap(pid: int) -> int | None:
    """Collect every process that has ended; the status of one of them."""
    found: int | None = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if ended == 0:
            return found
        if ended == pid:
            found = os.waitstatus_to_exitcode(status)


def _kill_all() -> None:
    """Kill whatever is below, again and again: killing a parent brings its children here."""
    end = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < end:
        _reap(0)
        below = _below(os.getpid())
        if not below:
            return
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _below(pid: int) -> list[int]:
    """All descendants, parents first."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_below(child)]
    return found


if __name__ == "__main__":
    result = main(float(sys.argv[1]), sys.argv[2:])
    os._exit(128 - result if result < 0 else result & 0xFF)
