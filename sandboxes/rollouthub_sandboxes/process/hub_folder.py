"""The hub's folder for process sandboxes: locked while its hub lives, removed by the next one where it was killed."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "rollouthub-process-"
_PREFIXES = (PREFIX, "envhub-process-")
"""Its own, and that of before the hub was called rollouthub."""
_FRESH_SECONDS = 60.0
"""A folder younger than this may not have been locked yet."""


@contextmanager
def own_folder() -> Generator[Path]:
    """A folder of this hub's; gone when the context ends."""
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path.chmod(0o711)  # sandboxes of other users get to their own folder, and see no others
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)


def sweep_folders() -> int:
    """Remove the folders of this user's hubs that are dead; how many. The kernel lets go of a dead hub's lock."""
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
            shutil.rmtree(path, ignore_errors=True)
            return True
        return False
    finally:
        os.close(folder)
