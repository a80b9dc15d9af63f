"""The folder of a hub's process sandboxes: locked while the hub runs; after a crash the next hub removes it."""

import fcntl
import os
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from rollouthub.store.folders import remove_folder

PREFIX = "rollouthub-process-"
_PREFIXES = (PREFIX, "envhub-process-")
"""Prefixes of the folder's name, now and before the hub was renamed to rollouthub."""
_FRESH_SECONDS = 60.0
"""A folder younger than this may not have been locked yet."""


@contextmanager
def own_folder() -> Generator[Path]:
    """A locked temporary folder for this hub, removed when the context ends."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path.chmod(0o711)  # sandboxes of other users get to their own folder, and see no others
        yield path
    finally:
        remove_folder(path)
        os.close(lock)


def sweep_folders() -> int:
    """Remove the folders of this user's dead hubs, whose locks the kernel has released; return how many."""
    temporary = Path(tempfile.gettempdir())
    return sum(_remove_if_dead(path) for prefix in _PREFIXES for path in temporary.glob(f"{prefix}*"))


def _remove_if_dead(path: Path) -> bool:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        about = os.fstat(folder)
        if about.st_uid != os.geteuid() or time.time() - about.st_mtime < _FRESH_SECONDS:
            return False
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_folder(path)
            return True
        return False
    finally:
        os.close(folder)
