"""Pictures, sounds and artifacts of a run: one file each in `media/`, named by digest."""

import errno
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from rollouthub.errors import RunDirectoryError, UnknownNameError
from rollouthub.messages import digest_of
from rollouthub.plugins.plain_files import open_plain, read_plain

_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_PARTIAL = ".partial"
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
        file = read_plain(folder / media_name(digest))  # closed below, apart from the errors of opening it
    except (ValueError, FileNotFoundError, NotADirectoryError):
        raise UnknownNameError("medium", digest, ()) from None
    except OSError as error:
        raise RunDirectoryError(f"medium {digest} cannot be read: {error.strerror}") from error
    with file:
        if (size := os.fstat(file.fileno()).st_size) > most_bytes:
            raise RunDirectoryError(f"medium {digest} has {size:,} bytes, more than {most_bytes:,}")
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
    """Write the media that are not stored yet; each file appears only when complete, and through no link.

    Raises:
        OSError: they cannot be written, or the folder is another user's link.
    """
    for digest, content in media.items():
        path = folder / media_name(digest)
        if path.is_file() and not path.is_symlink():
            continue
        folder.mkdir(exist_ok=True)
        if folder.is_symlink() and folder.lstat().st_uid != os.geteuid():
            raise OSError(errno.ELOOP, "it is another user's link", str(folder))
        partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}{_PARTIAL}")
        with os.fdopen(open_plain(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(content)
        partial.replace(path)


def clear_partial_media(folder: Path) -> None:
    """Remove incomplete files that a killed writer left behind."""
    for partial in folder.glob(f"*{_PARTIAL}"):
        partial.unlink(missing_ok=True)
