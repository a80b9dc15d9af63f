"""Digests of the files that settings name, so that a resumed run accepts the same file at another path."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

MOST_BYTES = 64 * 2**20
"""Most bytes of a file or folder that are hashed; larger ones get no digest."""
MOST_FILES = 2000


def setting_files(settings: Mapping[str, JsonValue]) -> dict[str, str]:
    """Setting → digest of the file or folder that it names; settings that name none are left out."""
    found: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, str) and (os.sep in value or "." in value):
            try:
                digest = _digest(Path(value).expanduser())
            except (OSError, RuntimeError, ValueError):
                continue  # not there, not readable, or no path at all
            if digest is not None:
                found[name] = digest
    return found


def _digest(path: Path) -> str | None:
    """A digest of a file's contents, or of a folder's file names and contents; None if it is empty or too large."""
    total, digest = 0, hashlib.sha256()
    for count, file in enumerate(_files(path)):
        size = file.stat().st_size
        total += size
        if total > MOST_BYTES or count == MOST_FILES:
            return None
        name = b"" if file == path else os.fsencode(file.relative_to(path))
        digest.update(b"%d %d " % (len(name), size) + name)
        digest.update(file.read_bytes())
    return f"sha256:{digest.hexdigest()[:32]}" if total else None


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(folder, name) for name in sorted(names) if Path(folder, name).is_file())
