"""Resolves a RUN argument to a run directory, and lists the runs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.errors import ConfigError, RunDirectoryError

if TYPE_CHECKING:
    from rollouthub.store import BrokenRun, RunInfo

RootOption = Annotated[Path, typer.Option(help="Where runs are kept; runs/ and the user's own store by default.")]

RUNS = Path("runs")


def user_store(environ: Mapping[str, str]) -> Path:
    """The user's own store: the folder for runs without a working folder, such as those of an MCP app."""
    given = environ.get("XDG_DATA_HOME") or ""
    data = Path(given) if given.startswith("/") else Path.home() / ".local" / "share"
    return data / "rollouthub" / "runs"


def _roots(root: Path) -> list[Path]:
    """The folders in which runs are searched: the given one, and also the user's own store if it is the default."""
    return [root, user_store(os.environ)] if root == RUNS else [root]


def find_run(name: str, root: Path) -> Path:
    """Resolve a RUN argument (a path, a name, a run id, or `last`) to a run directory. The path of another tool's run
    is read into one, with its progress on stderr; it must not be called within an event loop then.

    Raises:
        RunDirectoryError: no run matches.
        ConfigError: it is a file or folder of no known format, or cannot be read.
    """
    found = find_stored(name, root)
    if isinstance(found, Path):
        return found
    from rollouthub.cli.foreign_progress import read_with_progress

    return read_with_progress(found.path)


@dataclass(frozen=True)
class ForeignPath:
    """A RUN argument that names a file or a folder of another tool's."""

    path: Path


def find_stored(name: str, root: Path) -> Path | ForeignPath:
    """Resolve a RUN argument to a run directory, or to the path of another tool's run, which is not read.

    Raises:
        RunDirectoryError: no run matches.
    """
    from rollouthub.store import RunInfo

    path = Path(name)
    if (path / "run.db").exists():
        return path
    for place in _roots(root):
        if not path.is_dir() and (place / name).is_dir():
            return place / name
    if (path.is_file() and name != "last") or _has_files(path):
        return ForeignPath(path)
    if path.is_dir():
        return path
    found = newest_first(root)
    if name == "last":
        if not found:
            raise ConfigError(f"there are no runs in {root}/ yet; make one with: hub run arithmetic")
        return found[0].directory
    for entry in found:
        if isinstance(entry, RunInfo) and entry.run_id == name:
            return entry.directory
    known = ", ".join(entry.directory.name for entry in found[:5]) or "none"
    raise RunDirectoryError(f"there is no run {name!r}, neither as a path nor in {root}/ (newest there: {known})")


def _has_files(folder: Path) -> bool:
    """Whether a folder holds anything; an empty one is a run that is about to begin, or none."""
    return folder.is_dir() and next(folder.iterdir(), None) is not None


def run_names() -> list[str]:
    """Names of the run directories in runs/ and the user's own store, the most recently changed first; opens no run."""
    from rollouthub.store.run_directories import run_directories

    found = [directory for place in _roots(RUNS) for directory in run_directories(place)]
    return [directory.name for directory in sorted(found, key=lambda each: -each.stat().st_mtime)]


def newest_first(root: Path) -> "list[RunInfo | BrokenRun]":
    """All runs, the newest first; unreadable runs come last."""
    from rollouthub.store import RunInfo, find_runs

    found = [entry for place in _roots(root) for entry in find_runs(place)]
    readable = [entry for entry in found if isinstance(entry, RunInfo)]
    readable.sort(key=lambda run: run.created_at, reverse=True)
    return [*readable, *(entry for entry in found if not isinstance(entry, RunInfo))]
