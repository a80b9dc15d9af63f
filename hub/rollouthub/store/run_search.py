"""Finds and opens the runs below a folder."""

from pathlib import Path

from rollouthub.errors import HubError
from rollouthub.store.reader import open_run
from rollouthub.store.run_directories import run_directories
from rollouthub.store.run_facts import BrokenRun, RunInfo


def find_runs(root: Path) -> list[RunInfo | BrokenRun]:
    """The runs in a folder, up to three levels down, oldest first; unreadable ones come last as `BrokenRun`."""
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
