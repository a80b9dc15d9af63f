"""An episode's scratch folder: filled before the server starts, and copied for the verifier after it has ended."""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from rollouthub.errors import TaskError
from rollouthub.score import UNKEEPABLE, CollectedArtifacts, KeptArtifact
from rollouthub.store.folders import remove_folder

MAX_FILES = 20_000
MAX_BYTES = 512 * 1024 * 1024
"""Most bytes of a whole copy; files that do not fit are left out and reported to the verifier."""
_MAX_DEPTH = 64
_CHUNK = 1024 * 1024
_MAX_SKIPPED = 1_000


@dataclass(frozen=True)
class Scratch:
    """The folders of one episode, which contain nothing of the environment's own folder but its seed files."""

    root: Path
    mark: str
    """Random text that marks the episode's processes."""

    @property
    def workdir(self) -> Path:
        """The server's working folder."""
        return self.root / "work"

    @property
    def home(self) -> Path:
        """The server's HOME."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """The server's TMPDIR."""
        return self.root / "tmp"


@dataclass(frozen=True)
class Skipped:
    """A path in the scratch folder that was not copied."""

    path: str
    reason: str


def make_scratch(mark: str) -> Scratch:
    """Create empty folders that only this user can access."""
    # Resolved: a server that compares real paths is not to trip over a linked temporary folder.
    scratch = Scratch(Path(tempfile.mkdtemp(prefix="rollouthub-")).resolve(), mark)
    for folder in (scratch.workdir, scratch.home, scratch.temporary):
        folder.mkdir(mode=0o700)
    return scratch


def remove(folder: Path) -> None:
    """Remove a folder, whatever permissions the server gave its content."""

    def open_up(function: object, path: str, _: object) -> None:
        parent = Path(path).parent
        for locked in (parent, Path(path)):
            if not locked.is_symlink() and locked.exists():
                locked.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            remove_folder(path)
        else:
            Path(path).unlink(missing_ok=True)

    try:
        shutil.rmtree(folder, onerror=open_up)
    except (OSError, RecursionError):
        remove_folder(folder)


def seed(workdir: Path, folder: Path | None, files: Mapping[str, str]) -> None:
    """Copy the seed folder, then the seed files, into a fresh scratch folder.

    Raises:
        TaskError: a file cannot be copied, or would be outside the scratch folder.
    """
    if folder is not None:
        for path in folder.rglob("*"):
            if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
                raise TaskError(f"{path} is a link that leads out of {folder}; agents could follow it", retryable=False)
        shutil.copytree(folder, workdir, symlinks=True, dirs_exist_ok=True)
    for name, text in files.items():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise TaskError(f"the task's file {name!r} would not lie in the scratch folder", retryable=False)
        target = workdir / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")


def snapshot(source: Path, target: Path) -> list[Skipped]:
    """Copy regular files and folders within limits, without following links; returns what was left out."""
    skipped: list[Skipped] = []
    files, room = 0, MAX_BYTES
    target.mkdir(mode=0o700, exist_ok=True)
    for entry, relative, depth in _walk(source, skipped):
        name = str(relative)
        if entry.is_symlink():
            skipped.append(Skipped(name, "a link"))
        elif entry.is_dir(follow_symlinks=False):
            if depth >= _MAX_DEPTH:
                skipped.append(Skipped(name, "nested too deeply"))
            else:
                (target / relative).mkdir(mode=0o700)
        elif files >= MAX_FILES:
            skipped.append(Skipped(name, f"more than {MAX_FILES:,} files"))
        else:
            files += 1
            copied = _copy(Path(entry.path), target / relative, room)
            if isinstance(copied, str):
                skipped.append(Skipped(name, copied))
            else:
                room -= copied
        if len(skipped) >= _MAX_SKIPPED:
            skipped.append(Skipped("…", "and more"))
            break
    return skipped


def collect(source: Path, patterns: Sequence[str], max_bytes: int) -> CollectedArtifacts:
    """The regular files that patterns name, each with its path below the folder as its name; no link is followed."""
    kept: list[KeptArtifact] = []
    skipped: list[Skipped] = []
    room = max_bytes
    for entry, relative, _ in _walk(source, skipped):
        # A link above what a pattern names hides it.
        is_link = entry.is_symlink()
        is_named = any(_names(pattern, relative, partly=is_link) for pattern in patterns)
        if not is_named or entry.is_dir(follow_symlinks=False):
            continue
        content = _read(Path(entry.path), room, max_bytes)
        if isinstance(content, bytes):
            room -= len(content)
            kept.append(KeptArtifact.of(relative.as_posix(), content))
        else:
            skipped.append(Skipped(str(relative), content))
        if len(kept) > MAX_FILES or len(skipped) >= _MAX_SKIPPED:
            skipped.append(Skipped("…", "and more"))
            break
    return CollectedArtifacts(kept, [f"{UNKEEPABLE}: {each.path}: {each.reason}"[:300] for each in skipped])


def _names(pattern: str, relative: Path, *, partly: bool) -> bool:
    """Whether a pattern names a path, or a folder above it; `partly`, or something below it."""
    wanted = PurePosixPath(pattern).parts
    is_whole = partly or len(relative.parts) >= len(wanted)
    return is_whole and all(map(fnmatchcase, relative.parts, wanted))


def _read(source: Path, room: int, most: int) -> bytes | str:
    """The bytes of one regular file, or the reason why it is not kept."""
    try:
        with _opened(source) as reader:
            content = reader.read(room + 1)
    except OSError as error:
        return "a link" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
    except _NoPlainFile:
        return "no plain file"
    return content if len(content) <= room else f"more than {most:,} bytes with the others"


def _walk(source: Path, skipped: list[Skipped]) -> Iterator[tuple[os.DirEntry[str], Path, int]]:
    """All entries below a folder; each folder comes before its content."""
    pending = [(source, Path(), 0)]
    while pending:
        folder, relative, depth = pending.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except PermissionError:
            folder.chmod(0o700)  # the server's own doing; it is dead and the folder is ours
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            skipped.append(Skipped(str(relative), f"cannot be read: {error.strerror}"))
            continue
        for entry in entries:
            yield entry, relative / entry.name, depth
            if entry.is_dir(follow_symlinks=False) and depth < _MAX_DEPTH:
                pending.append((Path(entry.path), relative / entry.name, depth + 1))


def _copy(source: Path, target: Path, room: int) -> int | str:
    """Copy one regular file; returns its bytes, or the reason why it was not copied."""
    try:
        reader = _opened(source)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except _NoPlainFile:
        return "no plain file"
    with reader:
        status = os.fstat(reader.fileno())
        if status.st_size > room:
            return f"{status.st_size:,} bytes; a copy holds {MAX_BYTES:,} in all"
        size = 0
        with target.open("xb") as writer:
            while chunk := reader.read(_CHUNK):
                size += len(chunk)
                writer.write(chunk)
        target.chmod(0o600 | (status.st_mode & 0o100))
    return size


class _NoPlainFile(Exception):
    """A pipe, a socket or a device."""


def _opened(path: Path) -> BinaryIO:
    """Open a regular file, without following a link and without waiting for a pipe's other end.

    Raises:
        OSError: it is a link, or cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _NoPlainFile
    return os.fdopen(handle, "rb")
