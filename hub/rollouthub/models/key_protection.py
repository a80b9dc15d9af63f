"""Hides the API keys in a process's environment from other programs of the same user, as far as the system allows."""

import os
import sys

from rollouthub.processes import stat_fields, strangers_environment

_PR_SET_DUMPABLE = 4


def hide_secrets() -> None:
    """Make this process's memory unreadable to other programs, and erase secrets from the environment that /proc shows.

    For processes that are the hub's own: debuggers, and libraries that share memory with each other by `ptrace`'s
    rules, as those for GPUs do, are refused, too. Root can still read the memory.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        erase_shown_secrets()


def erase_shown_secrets() -> None:
    """Erase secrets from /proc/PID/environ, which shows the bytes that this process was started with to every process
    of the user.

    `os.environ` and child processes keep the variables. For any process, a user's script or notebook included.
    """
    if sys.platform != "linux":
        return
    import ctypes

    try:
        fields = stat_fields("self")
    except FileNotFoundError:  # no /proc, so nobody reads in it
        return
    start, end = int(fields[47]), int(fields[48])  # env_start and env_end of proc(5)
    entries = list[tuple[int, bytes, bytes]]()
    offset = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, _, value = entry.partition(b"=")
        entries.append((offset + len(name) + 1, name, value))
        offset += len(entry) + 1
    shown = strangers_environment({os.fsdecode(name): os.fsdecode(value) for _, name, value in entries})
    for at, name, value in entries:
        if value and os.fsdecode(name) not in shown:
            if name in os.environb:
                os.environb[name] = os.environb[name]  # the C library's copy is elsewhere from now on
            ctypes.memset(at, 0, len(value))
