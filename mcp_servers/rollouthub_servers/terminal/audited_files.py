"""The texts of a task's own files, for `hub audit`."""

from collections.abc import Mapping, Sequence
from pathlib import Path

MOST_FILE_BYTES, MOST_BYTES, MOST_FILES = 64 * 1024, 1024 * 1024, 200
"""Most bytes of one text and of all, and most files; what is larger is left out."""


def texts_below(folder: Path, names: Sequence[str]) -> Mapping[str, str]:
    """The texts of the files below these folders, by path within `folder`, in order; links are left out."""
    found: dict[str, str] = {}
    total = 0
    for name in names:
        for file in sorted((folder / name).rglob("*")):
            if len(found) >= MOST_FILES or file.is_symlink() or not file.is_file():
                continue
            size = file.stat().st_size
            if size > MOST_FILE_BYTES or total + size > MOST_BYTES:
                continue
            content = file.read_bytes()
            if b"\0" not in content:
                found[file.relative_to(folder).as_posix()] = content.decode("utf-8", errors="replace")
                total += size
    return found
