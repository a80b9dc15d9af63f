"""Private folders for the sockets between the hub and servers behind walls; those of dead hubs are removed."""

import fcntl
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from rollouthub.store.folders import remove_folder

PREFIX = "rollouthub-wall-"
_FRESH_SECONDS = 60.0
"""A folder younger than this may not have been locked yet."""
_SHORT = "/tmp"
_MOST_BYTES = 66
"""Longest path of a folder of temporary files in which a socket's path is one that the kernel takes (107 bytes)."""


@contextmanager
def socket_folder() -> Generator[Path]:
    """A folder that only this user can enter, locked while it is used, and removed when the context ends."""
    _sweep()
    path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_parent()))
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path
    finally:
        remove_folder(path)
        os.close(lock)


def _parent() -> str:
    """The folder of temporary files; `/tmp` where its path is too long."""
    found = tempfile.gettempdir()
    return found if len(os.fsencode(found)) <= _MOST_BYTES else _SHORT


def _sweep() -> None:
    """Remove the folders of this user's hubs that were killed: the kernel has released their locks."""
    for path in Path(_parent()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                about = os.fstat(folder)
                if about.st_uid == os.geteuid() and time.time() - about.st_mtime > _FRESH_SECONDS:
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_folder(path)
            finally:
                os.close(folder)
