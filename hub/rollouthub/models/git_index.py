"""Whether git tracks a file, read from git's index without running `git`, which would execute commands from the
repository's configuration.

Format: https://git-scm.com/docs/index-format
"""

import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from rollouthub.plugins.file_owners import trusted_owners

_MOST_BYTES = 2**30
_HEADER = struct.Struct(">4sII")
# Of an entry, before its object's name: times, device, inode, mode, owner, size.
_STAT_BYTES = 40
_EXTENDED = 0x4000
_NAME_LENGTH = 0x0FFF


def is_tracked(path: Path) -> bool:
    """Whether the git index of a folder above the file lists it. False if the repository belongs to an untrusted user
    or cannot be read.

    Of the repository's configuration, only the line of a `.git` file that names its folder is followed.
    """
    path = path.parent.resolve() / path.name
    for tree in path.parents:
        if (folder := _git_folder(tree / ".git")) is None:
            continue
        name = os.fsencode(path.relative_to(tree))
        # A split index keeps most entries in files beside it.
        for index in (folder / "index", *folder.glob("sharedindex.*")):
            if _lists(_bytes(index, _MOST_BYTES), name):
                return True
    return False


def _git_folder(place: Path) -> Path | None:
    try:
        found = place.stat()
    except OSError:
        return None
    if found.st_uid not in trusted_owners():
        return None
    if stat.S_ISDIR(found.st_mode):
        return place
    kind, _, named = _bytes(place, 2**16).decode(errors="replace").strip().partition(": ")
    return place.parent / named if kind == "gitdir" else None


def _bytes(path: Path, most: int) -> bytes:
    """The content of a regular file of a trusted owner, up to `most` bytes long; empty for anything else."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            is_read = stat.S_ISREG(found.st_mode) and found.st_uid in trusted_owners() and found.st_size <= most
            return file.read() if is_read else b""
    except (OSError, ValueError):
        return b""


def _lists(index: bytes, name: bytes) -> bool:
    if len(index) < _HEADER.size:
        return False
    mark, version, count = _HEADER.unpack_from(index)
    if mark != b"DIRC":
        return False
    if version == 4:
        return any(name in _compressed(index, count, hash_bytes) for hash_bytes in (20, 32))
    # Names stand whole in versions 2 and 3, after flags that hold their length (and, in 3, perhaps further flags).
    at = index.find(name + b"\0")
    while at >= 0:
        for flags in (at - 2, at - 4):
            if flags > 0 and int.from_bytes(index[flags : flags + 2]) & _NAME_LENGTH == min(len(name), _NAME_LENGTH):
                return True
        at = index.find(name + b"\0", at + 1)
    return False


def _compressed(index: bytes, count: int, hash_bytes: int) -> Iterator[bytes]:
    """The file names in an index of version 4: each drops some bytes from the end of the previous name and appends
    its own.
    """
    at, name = _HEADER.size, b""
    for _ in range(count):
        at += _STAT_BYTES + hash_bytes
        flags = int.from_bytes(index[at : at + 2])
        at += 4 if flags & _EXTENDED else 2
        dropped, at = _offset(index, at)
        end = index.find(b"\0", at)
        if end < 0 or dropped > len(name):
            return
        name = name[: len(name) - dropped] + index[at:end]
        at = end + 1
        yield name


def _offset(index: bytes, at: int) -> tuple[int, int]:
    """A number in the variable-length encoding of pack files, and the index after it."""
    byte = index[at] if at < len(index) else 0
    at, value = at + 1, byte & 0x7F
    while byte & 0x80 and at < len(index):
        byte = index[at]
        at, value = at + 1, ((value + 1) << 7) | (byte & 0x7F)
    return value, at
