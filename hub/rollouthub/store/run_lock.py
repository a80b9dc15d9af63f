"""The lock of a run: held by its writer, tested by readers."""

import errno
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rollouthub.errors import RunDirectoryError, StoreError
from rollouthub.plugins.plain_files import open_plain, read_plain

try:
    import fcntl
except ImportError:  # no flock on this platform: the lock's existence has to do
    fcntl = None

LOCK = "run.lock"
_MOST_BYTES = 10_000
_PATIENCE_SECONDS = 0.25
"""Seconds that a writer tries to take the lock, because a reader's test holds it for microseconds."""


def take_lock(directory: Path) -> FileLock:
    """Take the run's lock and write the holder's identity into it; the caller releases it.

    Raises:
        RunDirectoryError: another writer holds it, or the directory cannot be written.
        StoreError: the disk is full.
    """
    path = directory / LOCK
    lock = FileLock(path, mode=0o600, thread_local=False)
    try:
        lock.acquire(timeout=_PATIENCE_SECONDS, poll_interval=0.02)
    except Timeout:
        raise RunDirectoryError(
            f"{directory} is being written by {_holder(path)}; wait until that run ends, "
            "or start a new one in another directory (-o)"
        ) from None
    except (OSError, NotImplementedError) as error:
        raise cannot_write(directory, error) from error
    try:
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        # Of a link, which may lead to any file, nothing is followed.
        with os.fdopen(open_plain(path, os.O_WRONLY | os.O_TRUNC), "w") as file:
            json.dump(holder, file)
    except OSError as error:
        lock.release()
        raise cannot_write(directory, error) from error
    return lock


def is_locked(directory: Path) -> bool:
    """Whether a writer holds the run's lock. Works in a read-only directory, too."""
    try:
        descriptor = open_plain(directory / LOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it exists and is none of ours: say running rather than dead
    try:
        if fcntl is None:
            return True
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def cannot_write(directory: Path, error: Exception) -> RunDirectoryError | StoreError:
    """The error for a run directory that could not be created or written."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreError(f"the run in {directory} could not be started: the disk is full. Free some space, or use -o")
    if isinstance(error, FileExistsError | NotADirectoryError):
        return RunDirectoryError(f"{directory} is no folder, and none can be made there; choose another one (-o)")
    return RunDirectoryError(
        f"{directory} cannot be written ({error}); make it writable, or choose another directory (-o)"
    )


def _holder(path: Path) -> str:
    with suppress(OSError, ValueError):
        with read_plain(path) as file:
            holder: Any = json.loads(file.read(_MOST_BYTES))
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(holder["since"]))
        return f"process {holder['pid']} on {holder['host']} since {since}"
    return "another process"
