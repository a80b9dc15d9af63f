"""Reads the files of a task's folder in the form in which they are copied to a sandbox."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from rollouthub.errors import DataError
from rollouthub.sandbox import MIB, File

MOST_BYTES = 512 * MIB
"""Most bytes of one folder of tests or of a solution."""
_SKIPPED = {"__pycache__", ".git", ".DS_Store"}


def folder_files(folder: Path, root: Path) -> list[File]:
    """All files below a folder, sorted; empty if it does not exist. Links must stay within `root`, the task's folder.

    Raises:
        DataError: a link leads out of the task, or the files are too large.
    """
    files: list[File] = []
    total = 0
    for path in _walk(folder, root.resolve(), frozenset()):
        data = _read(path)
        total += len(data)
        if total > MOST_BYTES:
            raise DataError(f"its files are more than {MOST_BYTES >> 20} MiB", folder)
        mode = 0o755 if path.stat().st_mode & 0o111 or path.suffix == ".sh" else 0o644
        files.append(File(path.relative_to(folder).as_posix(), data, mode))
    return files


def folder_digest(folder: Path) -> str:
    """A digest of all files of a task, so that a changed test or image makes a different task."""
    digest = hashlib.sha256()
    for path in _walk(folder, folder.resolve(), frozenset()):
        data = _read(path)
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(data)}\0".encode(errors="surrogateescape"))
        digest.update(data)
    return digest.hexdigest()[:32]


def _walk(folder: Path, root: Path, above: frozenset[Path]) -> Iterator[Path]:
    if not folder.is_dir():
        return
    resolved = folder.resolve()
    if not resolved.is_relative_to(root) or resolved in above:
        raise DataError("this link leads out of the task, or in a circle", folder)
    for entry in sorted(folder.iterdir()):
        if entry.name in _SKIPPED:
            continue
        if not entry.resolve().is_relative_to(root):
            raise DataError("this link leads out of the task", entry)
        if entry.is_dir():
            yield from _walk(entry, root, above | {resolved})
        elif entry.is_file():
            yield entry


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"the file cannot be read: {error.strerror or error}", path) from error
