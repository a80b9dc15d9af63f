"""Finding runs below a folder."""

import os
from collections.abc import Iterator
from pathlib import Path

from rollouthub.errors import HubError
from rollouthub.store.reader import open_run
from rollouthub.store.run_facts import BrokenRun, RunInfo
from rollouthub.store.sql_schema import DATABASE

_DEPTH = 3


def find_runs(root: Path) -> list[RunInfo | BrokenRun]:
    """The runs in a folder, up to three levels down, oldest first; what cannot be read is reported, last."""
    found: list[RunInfo] = []
    broken: list[RunInfo | BrokenRun] = []
    for directory in run_directories(root):
        try:
            with open_run(directory) as run:
                found.append(run.info)
        except (HubError, OSError, KeyError, ValueError) as error:
            broken.append(BrokenRun(directory, str(error)))
    found.sort(key=lambda run: run.created_at)
    return [*found, *broken]


def run_directories(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """The directories in a folder that hold a database, whatever is in it; looks so many levels down."""
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
