"""Finds run directories, which are those with a database; the database is not opened."""

import os
from collections.abc import Iterator
from pathlib import Path

DATABASE = "run.db"
RECEIPT_SUFFIX = ".receipt.json"
"""End of the name of a receipt beside its run: `runs/sums.receipt.json` of `runs/sums`."""
_DEPTH = 3


def receipt_of(directory: Path) -> Path | None:
    """The receipt beside a run, whether or not it is the run's; None without one."""
    resolved = directory.resolve()
    found = resolved.with_name(resolved.name + RECEIPT_SUFFIX)
    return found if found.is_file() else None


def run_directories(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """The directories below a folder that contain a database, valid or not, down to a limited depth."""
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError:
        return
    if any(entry.name == DATABASE for entry in entries):
        yield folder
    elif depth:
        for entry in entries:
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield from run_directories(Path(entry.path), depth - 1)
