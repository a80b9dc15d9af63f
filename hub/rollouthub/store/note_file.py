"""The file of notes in a run's directory, `notes.jsonl`: appended to under a lock, read from where it was read before.

A line is one change by one person. Appending never alters what is there, so that several people may write at once, and
a process that is killed loses at most the change it was about to write. A line cut off so is ended by the next writer.
"""

import errno
import os
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from rollouthub.errors import RunDirectoryError, StoreError
from rollouthub.plugins.plain_files import open_plain, read_plain

try:
    import fcntl
except ImportError:  # no flock on this platform: appending has to do
    fcntl = None

NOTES = "notes.jsonl"
MOST_BYTES = 16 * 2**20
"""Most bytes of the file: no more are read, and none are written beyond."""
_MOST_LINE = 2**17
_PATIENCE_SECONDS = 5.0
"""Seconds that a writer waits for others, who hold the lock for a millisecond."""

Stamp = tuple[int, int, int]
"""Inode, bytes and nanoseconds of a file: another one says that it has changed."""


class NoteLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change, as a line of the file holds it."""

    at: float
    """Unix time in seconds."""
    by: str
    rollout: str
    attempt: int = 0
    turn: int | None = None
    """The turn, counted from 1; None for the rollout itself."""
    tags: list[str] = []
    untags: list[str] = []
    star: bool | None = None
    comment: str | None = None
    reviewed: bool | None = None


_DECODER = msgspec.json.Decoder(NoteLine)


def notes_stamp(directory: Path) -> Stamp | None:
    """What changes whenever a note is added, for the price of one `stat`; None without notes."""
    try:
        found = (directory / NOTES).lstat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def why_not_written(directory: Path) -> str | None:
    """Why no note can be added to a run, as far as is seen without writing; None where nothing speaks against it."""
    path = directory / NOTES
    if os.access(path if path.exists() else directory, os.W_OK):
        return None
    return _refused(path, "it is read-only here")


def _refused(path: Path, why: str) -> str:
    return (
        f"the note cannot be written to {path} ({why}): notes are kept beside the run; make its directory writable, or "
        "copy the run to one of yours"
    )


def append_lines(directory: Path, lines: Sequence[NoteLine]) -> None:
    """Append changes, all or none of them, and flush them to the disk. Blocks.

    Raises:
        RunDirectoryError: the directory or the file cannot be written, or the file is a link or no file.
        StoreError: the disk or the file is full, or others keep the file locked.
    """
    if not lines:
        return
    path = directory / NOTES
    added = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    try:
        descriptor = open_plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            with _locked(descriptor, path):
                _append(descriptor, added, path)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreError(f"the note was not written to {path}: the disk is full. Free some space") from error
        raise RunDirectoryError(_refused(path, str(error.strerror or error))) from error


def _append(descriptor: int, added: bytes, path: Path) -> None:
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        added = b"\n" + added
    if size + len(added) > MOST_BYTES:
        raise StoreError(f"{path} is full: notes take {MOST_BYTES // 2**20} MiB at most; move the file away")
    left = memoryview(added)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


@contextmanager
def _locked(descriptor: int, path: Path) -> Generator[None]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreError(f"{path} is locked by another process; try again") from None
            time.sleep(0.01)
        except OSError:  # a file system without locks
            break
    yield  # closing the file ends the lock


class NoteFile:
    """Reads the lines that were added since they were last asked for. Hostile files are read in bounded time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.problem: str | None = None
        """Why notes are missing, for people; None if none are."""
        self._stamp: Stamp | None = None
        self._inode = self._offset = self._unread = 0

    def read(self) -> tuple[bool, list[NoteLine]]:
        """Whether all lines read earlier are void, because the file was replaced; and the new lines. Blocks."""
        stamp = notes_stamp(self.directory)
        if stamp == self._stamp:
            return False, []
        is_void = self._offset > 0 and (stamp is None or stamp[0] != self._inode or stamp[1] < self._offset)
        if is_void or stamp is None:
            self._offset = self._unread = 0
        self._stamp, self._inode, self.problem = stamp, stamp[0] if stamp else 0, None
        return is_void, self._new_lines() if stamp else []

    def _new_lines(self) -> list[NoteLine]:
        try:
            with read_plain(self.directory / NOTES) as file:
                file.seek(self._offset)
                text = file.read(MOST_BYTES + 1 - self._offset)
        except OSError as error:
            self.problem = f"{NOTES} cannot be read: {error.strerror or error}"
            return []
        if is_long := self._offset + len(text) > MOST_BYTES:
            text = text[: MOST_BYTES - self._offset]
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = [line for each in whole.split(b"\n") if each.strip() and (line := self._line(each)) is not None]
        if self._unread:
            what = "1 line of {} is no note" if self._unread == 1 else f"{self._unread:,} lines of {{}} are no notes"
            self.problem = f"{what.format(NOTES)}, and left out"
        if is_long:
            self.problem = f"{NOTES} has more than {MOST_BYTES // 2**20} MiB; the rest is not read"
        return lines

    def _line(self, text: bytes) -> NoteLine | None:
        try:
            if len(text) <= _MOST_LINE:
                return _DECODER.decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass
        self._unread += 1
        return None
