"""Lists the runs of this machine: those in given folders, and those that are playing anywhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from rollouthub.errors import HubError
from rollouthub.live.control.live_client import find_running
from rollouthub.live.control.live_views import RunView
from rollouthub.store import BrokenRun, RunInfo, open_run
from rollouthub.store.run_directories import DATABASE, run_directories
from rollouthub.store.run_lock import is_locked

_Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SeenRun:
    """A run of this machine, with its facts and the state it reports."""

    directory: Path
    info: RunInfo | BrokenRun
    """Facts about the run, or the reason why it cannot be read."""
    view: RunView | None
    """The run's state from its socket; None if it has no socket, or it does not answer."""
    socket: Path | None
    """The socket for controlling the run."""

    @property
    def is_live(self) -> bool:
        """Whether the run is playing now."""
        return self.view is not None or (isinstance(self.info, RunInfo) and self.info.status == "running")

    @property
    def name(self) -> str:
        """The run's name in the list: the name of its directory."""
        return self.directory.name


class RunsFeed:
    """The runs below given folders and all playing runs, sorted: live ones first, then newest first."""

    def __init__(self, roots: Sequence[Path], environ: Mapping[str, str]) -> None:
        self._roots, self._environ = tuple(roots), environ
        self._known: dict[Path, tuple[_Stamp, RunInfo | BrokenRun]] = {}
        self.runs: list[SeenRun] = []
        self.problems: list[str] = []
        """Problems of runs' sockets that did not answer."""

    async def refresh(self) -> bool:
        """Read the list of runs again; returns whether it changed. A run that has ended is read only once."""
        running, problems = await find_running(self._environ, limit=0)
        playing = {_real(Path(hub.listing.run.directory)): (hub.listing.run, hub.path) for hub in running}
        found = await anyio.to_thread.run_sync(self._look, tuple(playing))
        runs: list[SeenRun] = []
        for directory, info in found.items():
            view, socket = playing.get(_real(directory), (None, None))
            runs.append(SeenRun(directory, info, view, socket))
        runs.sort(key=_rank)
        is_new = runs != self.runs or problems != self.problems
        self.runs, self.problems = runs, problems
        return is_new

    def _look(self, playing: Sequence[Path]) -> dict[Path, RunInfo | BrokenRun]:
        directories: dict[Path, Path] = {}
        for root in self._roots:
            for directory in run_directories(root):
                directories.setdefault(_real(directory), directory)
        for directory in playing:
            directories.setdefault(directory, directory)
        known = self._known
        self._known = {}
        found: dict[Path, RunInfo | BrokenRun] = {}
        for directory in directories.values():
            stamp = _stamp(directory)
            kept = known.get(directory)
            if stamp is None or kept is None or kept[0] != stamp or is_locked(directory) or _was_live(kept[1]):
                info = _read(directory)
            else:
                info = kept[1]
            if stamp is not None:
                self._known[directory] = (stamp, info)
            found[directory] = info
        return found


def _was_live(info: RunInfo | BrokenRun) -> bool:
    return isinstance(info, RunInfo) and info.status == "running"


def _read(directory: Path) -> RunInfo | BrokenRun:
    try:
        with open_run(directory) as reader:
            return reader.info
    except (HubError, OSError, KeyError, ValueError) as error:
        return BrokenRun(directory, str(error))


def _rank(run: SeenRun) -> tuple[int, float, str]:
    if isinstance(run.info, BrokenRun):
        return (0 if run.is_live else 2, 0.0, str(run.directory))
    return (0 if run.is_live else 1, -run.info.created_at, str(run.directory))


def _real(directory: Path) -> Path:
    return directory.resolve()


def _stamp(directory: Path) -> _Stamp | None:
    try:
        status = (directory / DATABASE).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
