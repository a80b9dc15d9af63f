"""Files in folders that others may have written to: opened only as regular files, through no link, without waiting."""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def open_plain(path: Path | str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of a regular file; `flags` and `mode` are those of `os.open`.

    Raises:
        OSError: it cannot be opened; `path` is a link, a pipe, a folder or a device.
    """
    descriptor = os.open(path, flags | _FLAGS, mode)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_plain(path: Path | str) -> BinaryIO:
    """A regular file to read; the caller closes it.

    Raises:
        OSError: as `open_plain`.
    """
    return os.fdopen(open_plain(path), "rb")


def own_folder(path: Path) -> None:
    """Make a folder that only this user may enter, below one that is there, or take the one that is there.

    Raises:
        OSError: it cannot be made; what is there is a link, no folder, another user's, or writable by others.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.ENOTDIR, "it is a link, not a folder", str(path))
    if hasattr(os, "geteuid") and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
        raise OSError(errno.EPERM, "other users may write to it", str(path))
