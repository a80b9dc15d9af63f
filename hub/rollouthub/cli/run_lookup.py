"""Finds the run that a RUN argument names, live or stored."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from anyio import to_thread

from rollouthub.analysis.foreign_runs.open_foreign import read_and_follow
from rollouthub.cli.find_run import RUNS, ForeignPath, find_stored, user_store
from rollouthub.errors import RunDirectoryError, UnknownNameError, UsageError
from rollouthub.live.control.live_client import choose_run, find_running
from rollouthub.store import open_run
from rollouthub.store.run_directories import run_directories
from rollouthub.store.run_facts import RunInfo
from rollouthub.store.run_search import find_runs
from rollouthub.text import plain_name

_MOST_NAMES = 1000


def usual_roots(environ: Mapping[str, str]) -> list[Path]:
    """The default folders of runs."""
    return [RUNS.absolute(), user_store(environ)]


def known_names(roots: Sequence[Path]) -> list[str]:
    """The names of the runs in these folders, without opening any run."""
    return [plain_name(path.name) for path in _directories(roots)][:_MOST_NAMES]


async def find_watched(name: str, roots: Sequence[Path], environ: Mapping[str, str]) -> Path:
    """The directory of the run that an argument names. Another tool's run is read by a process in the background, and
    is a running one until it is read.

    Raises:
        UsageError: no run or several match, or it is damaged or of a newer rollouthub; or a file is of no known format.
    """
    directory = _kept(name, roots) or await _playing(name, roots, environ)
    if isinstance(directory, ForeignPath):
        directory = await to_thread.run_sync(read_and_follow, directory.path)
    with open_run(directory) as reader:
        return reader.info.directory.absolute()


def _kept(name: str, roots: Sequence[Path]) -> Path | ForeignPath | None:
    if name == "last":
        found = [run for root in roots for run in find_runs(root) if isinstance(run, RunInfo)]
        if not found:
            raise UsageError(f"there are no runs in {_listed(roots)} yet; make one with: hub run arithmetic")
        return max(found, key=lambda run: run.created_at).directory
    for root in roots:
        try:
            return find_stored(name, root)
        except RunDirectoryError:
            continue
    return None


async def _playing(name: str, roots: Sequence[Path], environ: Mapping[str, str]) -> Path:
    running, _ = await find_running(environ, limit=0)
    try:
        return Path(choose_run(running, name).listing.run.directory)
    except UnknownNameError:
        pass
    except UsageError:
        if running:
            raise
    known = {*known_names(roots), *(hub.listing.run.run_id for hub in running)}
    raise UnknownNameError("run", name, known, f"Looked in {_listed(roots)}, as a path, and among those that play.")


def _directories(roots: Sequence[Path]) -> Iterator[Path]:
    for root in roots:
        yield from run_directories(root)


def _listed(roots: Sequence[Path]) -> str:
    return ", ".join(f"{root}/" for root in roots)
