"""Which run a RUN argument means, and where runs are looked for."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.errors import ConfigError, RunDirectoryError

if TYPE_CHECKING:
    from rollouthub.store import BrokenRun, RunInfo

RootOption = Annotated[Path, typer.Option(help="Where runs are kept; runs/ and the user's own store by default.")]

RUNS = Path("runs")


def user_store(environ: Mapping[str, str]) -> Path:
    """Where runs are kept that were started from nowhere in particular, such as an app's."""
    given = environ.get("XDG_DATA_HOME") or ""
    data = Path(given) if given.startswith("/") else Path.home() / ".local" / "share"
    return data / "rollouthub" / "runs"


def _roots(root: Path) -> list[Path]:
    """Where to look: in the folder that was named, or in the usual ones."""
    return [root, user_store(os.environ)] if root == RUNS else [root]


def find_run(name: str, root: Path) -> Path:
    """The directory a RUN argument means.

    Raises:
        RunDirectoryError: there is none.
    """
    from rollouthub.store import RunInfo

    path = Path(name)
    if (path / "run.db").exists() or path.is_dir():
        return path
    for place in _roots(root):
        if (place / name).is_dir():
            return place / name
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


def newest_first(root: Path) -> "list[RunInfo | BrokenRun]":
    """The runs there are, those that cannot be read at the end."""
    from rollouthub.store import RunInfo, find_runs

    found = [entry for place in _roots(root) for entry in find_runs(place)]
    readable = [entry for entry in found if isinstance(entry, RunInfo)]
    readable.sort(key=lambda run: run.created_at, reverse=True)
    return [*readable, *(entry for entry in found if not isinstance(entry, RunInfo))]
