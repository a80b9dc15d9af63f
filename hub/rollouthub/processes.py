"""Processes: how to start this interpreter and `hub`, the variables that child processes get, their descendants, and
how to end them.

Every process of this interpreter is started by `PYTHON` or `HUB`: without `-P`, the folder that it is started in
comes first on the import path.

This file is also a program, on the standard library alone, which `guarded` and `passing` call: `processes.py GRACE
COMMAND ARGUMENT…` runs one command and leaves no process of it behind. Stdout and stderr are the command's. When
stdin ends, or on SIGTERM, the command gets SIGTERM, unless GRACE is 0. After GRACE seconds, or when the command has
exited, every process below is killed, also those that left its session: orphans are reparented to this process, a
subreaper. If stdin is /dev/null, only SIGTERM ends the command. The exit status is the command's, or 127 if it could
not be started. Where GRACE is `-`, stdin is the command's, too: once the pipe's other end is closed, the command has
15 seconds to exit. No program of the same user can trace this process then.
"""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

IMPORT_SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
"""Variables that have litellm load its own tables instead of those on the network, for which it waits and warns, and
not load the working folder's `.env`. Defaults of `hub`, a cluster's workers, and processes with a clean environment.
"""

PYTHON = (sys.executable, "-P")
HUB = (*PYTHON, "-c", "from rollouthub.cli.entry import main; main()")

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.005
_NOT_STARTED = 127
_PASSING = "-"
_LEAVE_SECONDS = 15.0
"""Seconds in which a command that has its stdin to itself must exit after that has ended."""


def set_import_defaults() -> None:
    """Set `IMPORT_SETTINGS` in this process, where they are not set."""
    for name, value in IMPORT_SETTINGS.items():
        os.environ.setdefault(name, value)


def guarded(command: Sequence[str], grace_seconds: float = 0.0) -> list[str]:
    """The command line that runs a command under a guard: all its processes end with it, and when its stdin is
    closed.
    """
    return [*PYTHON, "-I", "-S", __file__, str(grace_seconds), *command]


def passing(command: Sequence[str]) -> list[str]:
    """The command line that runs a command under a guard which leaves stdin to it: all its processes end with it, and
    soon after whoever writes to its stdin has ended.
    """
    return [*PYTHON, "-I", "-S", __file__, _PASSING, *command]


def kill_group(leader: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to the process group of a leader; does nothing if the group has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def descendants(pid: int) -> list[int]:
    """Process ids of the living descendants of a process, each parent before its children (Linux only)."""
    found: list[int] = []
    try:
        tasks = list(Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return []  # the process ended meanwhile
    for task in tasks:
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue  # the thread ended meanwhile
        for child in children:
            found += [child, *descendants(child)]
    return found


def stat_fields(pid: int | str) -> list[str]:
    """The fields of /proc/PID/stat after the process's name, from its state on: proc(5) counts that as field 3.

    Raises:
        OSError: there is no such process, or no /proc.
    """
    # The name in parentheses may hold anything; what follows its last parenthesis does not.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _guard(grace: float, command: list[str], *, passes_stdin: bool = False) -> int:
    """Run a command until it exits or is to be ended; returns the exit status."""
    import ctypes
    import subprocess

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this kernel has no subreapers")
    if passes_stdin:
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
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
        given = None if passes_stdin else subprocess.DEVNULL
        child = subprocess.Popen(command, stdin=given, start_new_session=True, preexec_fn=as_before)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return _NOT_STARTED
    sys.stdout.close()
    status = _wait(child.pid, wake, asked, reads=not passes_stdin)
    if status is None and grace > 0:
        if asked or not passes_stdin:  # else it has seen the end of its stdin
            os.kill(child.pid, signal.SIGTERM)
        end = time.monotonic() + grace
        while status is None and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            status = _reap(child.pid)
    _kill_all()
    return 128 + signal.SIGTERM if status is None else status


def _wait(pid: int, wake: int, asked: list[int], *, reads: bool) -> int | None:
    """Wait for the child; its exit status as `subprocess` gives it, or None if it is to be ended first.

    Stdin's end is seen by reading it, or by its pipe having no writer any more.
    """
    import select
    import stat

    poller = select.poll()
    poller.register(wake, select.POLLIN)
    # /dev/null is always readable and always at its end.
    if not stat.S_ISCHR(os.fstat(0).st_mode):
        poller.register(0, select.POLLIN if reads else 0)
    while True:
        status = _reap(pid)
        if status is not None:
            return status
        if asked:
            return None
        for descriptor, _ in poller.poll():
            if descriptor == wake:
                os.read(wake, 4096)
            elif not reads or not os.read(0, 4096):
                return None


def _reap(pid: int) -> int | None:
    """Reap every process that has ended; returns the exit status of `pid`, or None if it was not among them."""
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
    """Kill all descendants, repeatedly: when a parent dies, its children are reparented to this process."""
    end = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < end:
        _reap(0)
        below = descendants(os.getpid())
        if not below:
            return
        for pid in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    sys.stderr.write("not every process could be killed\n")


def _end_as(status: int) -> None:
    """End this process with a status as `subprocess` gives it: by the same signal, or with the same exit status."""
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(?:_?\d+)?$|_PWD$", re.IGNORECASE
)
_SECRET_PART = re.compile(
    r"(?:^|_)(?:API_?)?(?:KEY|TOKEN|SECRET|CREDENTIAL|PASS|PASSWD|PASSWORD|PASSPHRASE|PW|PAT|AUTH|JWT|COOKIE|DSN|WEBHOOK)"
    r"S?\d*(?:_|$)",
    re.IGNORECASE,
)
_LOGIN_IN_ADDRESS = re.compile(r"://[^/\s@]+@")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that an environment's process gets: all except those named like a secret, and the defaults of
    `IMPORT_SETTINGS`.
    """
    return IMPORT_SETTINGS | {name: value for name, value in environ.items() if not _SECRET_NAME.search(name)}


def strangers_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that the process of a third-party environment gets, before those that it declares.

    Leaves out variables with any part of the name like a secret, as in TOKEN_OF_LAB, and values with a login in an
    address, as of a database or a package index.
    """
    return {
        name: value
        for name, value in clean_environment(environ).items()
        if not _SECRET_PART.search(name) and not _LOGIN_IN_ADDRESS.search(value)
    }


if __name__ == "__main__":
    is_passing = sys.argv[1] == _PASSING
    _end_as(_guard(_LEAVE_SECONDS if is_passing else float(sys.argv[1]), sys.argv[2:], passes_stdin=is_passing))
