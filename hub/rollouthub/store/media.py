"""Pictures, sounds and artifacts of a run: one file each in `media/`, named by digest."""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from rollouthub.errors import RunDirectoryError, UnknownNameError
from rollouthub.messages import digest_of

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_PARTIAL = ".partial"
_NEVER_WAITS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
MOST_BYTES = 256 * 2**20
"""Maximum size in bytes of a file that is read."""


def media_name(digest: str) -> str:
    """Return the file name for a digest.

    Raises:
        ValueError: the text is not a digest.
    """
    match = _DIGEST.fullmatch(digest)
    if match is None:
        raise ValueError(f"{digest!r} is no digest: expected 'sha256:' and 64 hex digits")
    return match[1]


def read_media(folder: Path, digest: str, most_bytes: int = MOST_BYTES) -> bytes:
    """Read the file of a digest. The folder may come from elsewhere, so the content is checked.

    Raises:
        UnknownNameError: there is no such file.
        RunDirectoryError: it is a link or no regular file, larger than `most_bytes`, or does not match its digest.
    """
    try:
        # Closed below, apart from the errors of opening it.
        file = open(folder / media_name(digest), "rb", opener=lambda path, _: os.open(path, _NEVER_WAITS))  # noqa: SIM115
    except (ValueError, FileNotFoundError, NotADirectoryError):
        raise UnknownNameError("medium", digest, ()) from None
    except OSError as error:
        raise RunDirectoryError(f"medium {digest} cannot be read: {error.strerror}") from error
    with file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise RunDirectoryError(f"medium {digest} cannot be read: it is no file")
        if found.st_size > most_bytes:
            raise RunDirectoryError(f"medium {digest} has {found.st_size:,} bytes, more than {most_bytes:,}")
        content = file.read(most_bytes)
    if digest_of(content) != digest:
        raise RunDirectoryError(f"medium {digest} was altered: it holds other bytes")
    return content


def media_size(folder: Path, digest: str) -> int:
    """The size in bytes of the file that `read_media` would read.

    Raises:
        UnknownNameError: there is no such file.
    """
    try:
        return (folder / media_name(digest)).lstat().st_size
    except (ValueError, OSError):
        raise UnknownNameError("medium", digest, ()) from None


def keep_media(folder: Path, media: Mapping[str, bytes]) -> None:
    """Write the media that are not stored yet; each file appears only when complete."""
    for digest, content in media.items():
        path = folder / media_name(digest)
        if path.exists():
            continue
        folder.mkdir(exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}{_PARTIAL}")
        partial.write_bytes(content)
        partial.replace(path)


def clear_partial_media(folder: Path) -> None:
    """Remove incomplete files that a killed writer left behind."""
    for partial in folder.glob(f"*{_PARTIAL}"):
        partial.unlink(missing_ok=True)
