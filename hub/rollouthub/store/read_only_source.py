"""Opens `run.db` for reading without writing a byte beside it, whether or not a writer is active.

| the run | how it is read |
| --- | --- |
| live: a writer holds the lock | `mode=ro`, next to the writer, one connection for each read |
| ended cleanly: a single file, no WAL | `mode=ro`; needs nothing from the directory, which may be read-only |
| ended uncleanly, or by a program that left WAL mode on | from a copy of the database and its WAL |

`immutable` is never used: beside a WAL it would show a database without its latest commits.
"""

import shutil
import sqlite3
import stat
import tempfile
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from rollouthub.errors import RunDirectoryError, StoreError
from rollouthub.plugins.plain_files import read_plain
from rollouthub.store.run_directories import DATABASE
from rollouthub.store.run_lock import is_locked
from rollouthub.store.sql_schema import check_schema, damaged, defend, read_as_new

_SIBLINGS = ("", "-wal", "-journal")
_TRIES = 5
_LARGE_BYTES, _MOST_HOLES = 2**30, 64
"""A file of more bytes than these is refused if less than one part in so many is on the disk."""
_Stamp = tuple[tuple[int, int, int] | None, ...]
_Opened = tuple[sqlite3.Connection, Callable[[], None]]
"""A connection, and a function that resets its reading limit."""


class ReadOnlySource:
    """Opens the database of a run for reading; each use checks whether the run has ended, died or been resumed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / DATABASE
        self._settled: tuple[_Stamp, _Opened] | None = None
        self._opened: list[sqlite3.Connection] = []
        self._copies: list[Path] = []
        weakref.finalize(self, _release, self._opened, self._copies)

    @contextmanager
    def connect(self) -> Generator[sqlite3.Connection]:
        """Return a connection that sees everything committed so far.

        Raises:
            RunDirectoryError: there is no run, or this version cannot read it.
            StoreError: the run could not be read at this moment.
        """
        try:
            if self.is_live:
                connection, _ = self._open_live()
                try:
                    yield connection
                finally:
                    connection.close()
            else:
                connection, look_anew = self._open_settled()
                look_anew()
                yield connection
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", None)  # Python's own, of text that is no UTF-8, has none
            if code is None:
                raise damaged(self.directory, error) from error
            if code == sqlite3.SQLITE_INTERRUPT:
                raise RunDirectoryError(
                    f"{self._path} is given up: reading it goes on for longer than a run of its size can take; "
                    "it is damaged, or not rollouthub's"
                ) from error
            raise StoreError(f"could not read the run in {self.directory}: {error}; try again") from error
        except sqlite3.DatabaseError as error:
            raise damaged(self.directory, error) from error

    @property
    def is_live(self) -> bool:
        """Whether a writer holds the run's lock."""
        return is_locked(self.directory)

    def close(self) -> None:
        """Close connections and remove copies; this also happens when the object is garbage-collected."""
        _release(self._opened, self._copies)
        self._settled = None

    def _open_live(self) -> _Opened:
        self._require()
        return self._open(self._path)

    def _open_settled(self) -> _Opened:
        self._require()
        stamp = self._stamp()
        if self._settled is not None and self._settled[0] == stamp:
            return self._settled[1]
        path = self._path if self._is_single_file() else self._copy()
        opened = self._open(path)
        self._opened.append(opened[0])
        self._settled = (stamp, opened)
        return opened

    def _open(self, path: Path) -> _Opened:
        uri = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=5)
        try:
            connection.execute("PRAGMA temp_store = MEMORY")
            size = sum(stamp[1] for suffix in _SIBLINGS if (stamp := _stamp(path.with_name(DATABASE + suffix))))
            look_anew = defend(connection, size)
            check_schema(connection, self.directory)
            read_as_new(connection)
        except BaseException:
            connection.close()
            raise
        return connection, look_anew

    def _require(self) -> None:
        try:
            if self._path.is_file() and self._path.stat().st_size:
                check_siblings(self.directory)
                return
        except OSError as error:
            raise RunDirectoryError(f"the run in {self.directory} cannot be read: {error}") from error
        if not self.directory.is_dir():
            raise RunDirectoryError(
                f"there is no run directory {str(self.directory)!r}; `hub runs` lists those there are"
            )
        raise RunDirectoryError(f"{self.directory} holds no run (no {DATABASE}); `hub runs` lists what there is")

    def _stamp(self) -> _Stamp:
        return tuple(_stamp(self._sibling(suffix)) for suffix in _SIBLINGS)

    def _sibling(self, suffix: str) -> Path:
        return self._path.with_name(DATABASE + suffix)

    def _is_single_file(self) -> bool:
        """Whether the last writer left WAL mode and no WAL is beside the file (by the version bytes of its header)."""
        if any((stamp := _stamp(self._sibling(suffix))) and stamp[1] for suffix in _SIBLINGS[1:]):
            return False
        # Closing a file drops a process's POSIX locks on it, SQLite's too; nobody writes here, so none is missed.
        with self._file_errors(), self._path.open("rb") as file:
            header = file.read(20)
        return header[18:20] != b"\x02\x02"

    def _copy(self) -> Path:
        """Copy the database with its WAL; the copy is repeated if the files changed meanwhile."""
        with self._file_errors():
            folder = Path(tempfile.mkdtemp(prefix="rollouthub-run-"))
            self._copies.append(folder)
            for _ in range(_TRIES):
                before = self._stamp()
                for suffix in _SIBLINGS:
                    (folder / (DATABASE + suffix)).unlink(missing_ok=True)
                    with suppress(FileNotFoundError):
                        _copy_file(self._sibling(suffix), folder / (DATABASE + suffix))
                if self._stamp() == before:
                    # Puts the WAL into the copy, so that it opens like any other file.
                    connection = sqlite3.connect(folder / DATABASE, isolation_level=None)
                    try:
                        connection.execute("PRAGMA journal_mode = DELETE")
                    finally:
                        connection.close()
                    return folder / DATABASE
        raise StoreError(f"the run in {self.directory} changes while it is copied; try again")

    @contextmanager
    def _file_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise RunDirectoryError(f"the run in {self.directory} cannot be read: {error}") from error


def check_siblings(directory: Path) -> None:
    """Refuse what SQLite would follow, wait for or be filled by: links, pipes and holes in the place of its own files.

    Raises:
        RunDirectoryError: one of the files beside the database is none, or has next to no content for its size.
    """
    for suffix in ("-wal", "-journal", "-shm", ""):
        path = directory / (DATABASE + suffix)
        try:
            found = path.lstat() if suffix else path.stat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode):
            raise RunDirectoryError(f"{path} is a link or no file, which no run has there; remove it")
        if found.st_size > _LARGE_BYTES and found.st_blocks * 512 < found.st_size // _MOST_HOLES:
            raise RunDirectoryError(
                f"{path} says {found.st_size:,} bytes and holds next to none; it is not rollouthub's"
            )


def _copy_file(source: Path, to: Path) -> None:
    if source.name == DATABASE:
        shutil.copyfile(source, to)
        return
    with read_plain(source) as file, to.open("xb") as copy:
        shutil.copyfileobj(file, copy, 2**20)


def _release(opened: list[sqlite3.Connection], copies: list[Path]) -> None:
    while opened:
        opened.pop().close()
    while copies:
        shutil.rmtree(copies.pop(), ignore_errors=True)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
