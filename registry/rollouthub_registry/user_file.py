"""The user's files: some of them private, each changed by one process at a time."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from rollouthub.errors import CredentialError, UsageError

LOCK_SECONDS = 10


def read_private(file: Path, most_bytes: int, remedy: str) -> bytes:
    """Read a private file; `remedy` says what to do if another user may have read it.

    Raises:
        CredentialError: others can read the file, another user owns it, or it is no plain file.
        OSError: the file cannot be read.
    """
    with os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CredentialError(f"{file} is no plain file; replace it by one")
        if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise CredentialError(
                f"{file} can be read by others, or belongs to another user; run `chmod 600 {file}`, and {remedy} if "
                "another user may have read it"
            )
        return source.read(most_bytes)


@contextmanager
def locked_file(file: Path, error: type[UsageError], seconds: float = LOCK_SECONDS) -> Generator[None]:
    """Hold a file's lock within the block, which may read and write the file; its folder is created if needed.

    Raises:
        UsageError: as the type `error`: another process holds the lock for too long, or the block raised an OSError.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(file.with_suffix(".lock"), timeout=seconds):
            yield
    except Timeout as timeout:
        raise error(f"{file} is held by another process for more than {seconds:g} s") from timeout
    except OSError as problem:
        raise error(f"{file} cannot be changed: {problem.strerror or problem}") from problem
