"""Names what a source was when it was read: where it is, and a stamp that changes when it does."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import ConfigError

_MOST_FILES = 500_000
_DEPTH = 6


@dataclass(frozen=True, slots=True)
class SourceStamp:
    """A source as it is now."""

    path: Path
    """Absolute, with links followed."""
    place: str
    """A key of the path."""
    state: str
    """A key of its size and modification time; of a folder, of those of all files in it."""


def stamp_of(path: Path) -> SourceStamp:
    """Look at a source; reads no file.

    Raises:
        ConfigError: it is not there, or is a folder of too many files.
    """
    try:
        full = path.resolve(strict=True)
        seen = hashlib.sha256()
        if full.is_dir():
            for number, (name, size, changed) in enumerate(_files(str(full), "", _DEPTH)):
                if number >= _MOST_FILES:
                    raise ConfigError(f"{str(path)!r} has more than {_MOST_FILES:,} files; name the folder of one run")
                seen.update(f"{name}\0{size}\0{changed}\0".encode("utf-8", "surrogateescape"))
        else:
            found = full.stat()
            seen.update(f"{found.st_size}\0{found.st_mtime_ns}".encode())
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    place = hashlib.sha256(os.fsencode(full)).hexdigest()
    return SourceStamp(full, place[:24], seen.hexdigest()[:24])


def _files(folder: str, name: str, depth: int) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        inner = f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if depth:
                yield from _files(entry.path, inner, depth - 1)
        else:
            found = entry.stat(follow_symlinks=False)
            yield inner, found.st_size, found.st_mtime_ns
