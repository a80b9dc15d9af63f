"""Runs one command and ends everything it started. A program of its own, on the standard library alone.

`keeper.py COMMAND ARGUMENT…`: stdout and stderr are the command's; when stdin ends, or the command does, every process
below is killed, those that left its session too: orphans come back to this process, which is their reaper. The exit
status is the command's own; 127 where it could not be started.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.005
NOT_STARTED = 127


def main(command: list[str]) -> int:
    """Run a command to its end, or to the end of stdin."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this kernel has no subreapers")
    wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake_up)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of stdin alone says when to stop
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_as_before)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return NOT_STARTED
    status = _wait(child.pid, wake)
    _kill_all()
    return NOT_STARTED if status is None else status


def _wake_up(number: int, frame: object) -> None:
    """The wake-up pipe says all; a handler has to be there for it to."""


def _as_before() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _wait(pid: int, wake: int) -> int | None:
    """The child's exit status, as `subprocess` gives it; None where stdin ended before."""
    while True:
        status = _reap(pid)
        if status is not None:
            return status
        ready, _, _ = select.select([0, wake], [], [])
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
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(_POLL_SECONDS)
    sys.stderr.write("not every process could be killed\n")


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
    result = main(sys.argv[1:])
    if result < 0:  # ended by a signal: so is this
        signal.signal(-result, signal.SIG_DFL) if -result not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -result)
    sys.stdout.flush()
    os._exit(result & 0xFF)
