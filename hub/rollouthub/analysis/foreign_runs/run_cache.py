"""The cache of foreign runs: for each source one run directory, in the user's cache folder, read anew when it changes.

`~/.cache/rollouthub/foreign-runs/<path's key>/<state's key>/<source's name>` is the run directory; the file `done`
beside it says that its reading ended, and its time when it was last opened.
"""

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout

from rollouthub.analysis.foreign_runs.read_source import SourceStamp
from rollouthub.errors import StoreError
from rollouthub.plugins.plain_files import own_folder
from rollouthub.store.folders import remove_folder
from rollouthub.store.run_lock import is_locked

MOST_BYTES = 20 * 2**30
"""Bytes that the cache takes at most; what was not opened longest goes first."""
_MOST_DAYS = 30
_FORM = 1
"""Raised when the same source would be read into other records."""
_DONE = "done"
_PLAIN = re.compile(r"[^\w.+@=-]+")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder of all cached runs of this user."""
    given = environ.get("XDG_CACHE_HOME") or ""
    cache = Path(given) if given.startswith("/") else Path.home() / ".cache"
    return cache / "rollouthub" / "foreign-runs"


def own_cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder of all cached runs, made if it is not there. No other user may have put a run into it.

    Raises:
        StoreError: it cannot be made, or other users may write to it.
    """
    folder = cache_folder(environ)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        own_folder(folder)
    except OSError as error:
        raise StoreError(
            f"the cache folder {folder} cannot be used: {error.strerror or error}; set XDG_CACHE_HOME to a folder of "
            "yours"
        ) from error
    return folder


@dataclass(frozen=True, slots=True)
class CachedRun:
    """The place of one source's run in the cache."""

    folder: Path
    """Of all states of the source; its `lock` is held by whoever reads the source."""
    entry: Path
    """Of its present state."""
    directory: Path
    """The run directory."""

    @classmethod
    def of(cls, stamp: SourceStamp, root: Path, run_format: str) -> "CachedRun":
        """The place of a source, read by a format; nothing is made."""
        folder = root / stamp.place
        made_by = f"{_PLAIN.sub('_', run_format)}-{_FORM}-{version('rollouthub')}"
        return cls.at(folder / f"{stamp.state}-{made_by}", stamp.path)

    @classmethod
    def at(cls, entry: Path, source: Path) -> "CachedRun":
        """The run of a source in this entry of the cache."""
        return cls(entry.parent, entry, entry / (_PLAIN.sub("_", source.name).strip(".")[:80] or "run"))

    @property
    def is_done(self) -> bool:
        """Whether the source was read to its end."""
        return (self.entry / _DONE).is_file() and (self.directory / "run.db").is_file()

    @property
    def is_begun(self) -> bool:
        """Whether somebody reads the source at this moment, and the run can be watched."""
        return (self.directory / "run.db").is_file() and is_locked(self.directory)

    def lock(self) -> FileLock:
        """The lock of the source, not taken.

        Raises:
            StoreError: the cache folder cannot be made.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the cache folder {self.folder} cannot be made: {error.strerror or error}") from error
        return FileLock(self.folder / "lock", mode=0o600, thread_local=False)

    def clear(self) -> None:
        """Remove all that was read of the source; called with the lock held."""
        for entry in self._entries():
            remove_folder(entry)
        self.entry.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _entries(self) -> list[Path]:
        with suppress(OSError):
            return [entry for entry in self.folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
        return []

    def set_done(self) -> None:
        """Say that the reading has ended."""
        (self.entry / _DONE).touch(mode=0o600)

    def use(self) -> None:
        """Note that the run was opened."""
        with suppress(OSError):
            os.utime(self.entry / _DONE)


def trim(root: Path, kept: Path, most_bytes: int = MOST_BYTES, now: float | None = None) -> None:
    """Remove runs that were not opened for a month, then the longest unopened until the rest is small enough; never the
    source folder `kept`, nor one that is being read.
    """
    oldest = (time.time() if now is None else now) - _MOST_DAYS * 86_400
    with suppress(OSError):
        folders = [folder for folder in root.iterdir() if folder.is_dir() and not folder.is_symlink()]
        _trim([(_opened(folder), _bytes(folder), folder) for folder in folders], kept, most_bytes, oldest)


def _trim(found: list[tuple[float, int, Path]], kept: Path, most_bytes: int, oldest: float) -> None:
    total = sum(size for _, size, _ in found)
    for opened, size, folder in sorted(found):
        if folder == kept or (opened >= oldest and total <= most_bytes):
            continue
        with suppress(Timeout, OSError), FileLock(folder / "lock", mode=0o600, timeout=0, thread_local=False):
            remove_folder(folder)
            total -= size


def _opened(folder: Path) -> float:
    times = [folder.stat().st_mtime]
    for done in folder.glob(f"*/{_DONE}"):
        with suppress(OSError):
            times.append(done.stat().st_mtime)
    return max(times)


def _bytes(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118
    return total
