"""An episode's scratch folder: seeded before the server starts, copied for the verifier when it is dead."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rollouthub.errors import TaskError

MAX_FILES = 20_000
MAX_BYTES = 512 * 1024 * 1024
"""Of a whole copy; what does not fit is left out, and the verifier is told."""
_MAX_DEPTH = 64
_CHUNK = 1024 * 1024
_MAX_SKIPPED = 1_000


@dataclass(frozen=True)
class Scratch:
    """The folders of one episode; nothing of the environment's own folder lies in them but its seed files."""

    root: Path
    mark: str
    """Random; the episode's processes carry it."""

    @property
    def workdir(self) -> Path:
        """Where the server works."""
        return self.root / "work"

    @property
    def home(self) -> Path:
        """HOME of the server."""
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        """TMPDIR of the server."""
        return self.root / "tmp"


@dataclass(frozen=True)
class Skipped:
    """Something in the scratch folder that was not copied."""

    path: str
    reason: str


def make_scratch(mark: str) -> Scratch:
    """New empty folders, open to this user alone."""
    # Resolved: a server that compares real paths is not to trip over a linked temporary folder.
    scratch = Scratch(Path(tempfile.mkdtemp(prefix="rollouthub-")).resolve(), mark)
    for folder in (scratch.workdir, scratch.home, scratch.temporary):
        folder.mkdir(mode=0o700)
    return scratch


def remove(folder: Path) -> None:
    """Remove a folder whatever the server made of its permissions."""

    def open_up(function: object, path: str, _: object) -> None:
        parent = Path(path).parent
        for locked in (parent, Path(path)):
            if not locked.is_symlink() and locked.exists():
                locked.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink(missing_ok=True)

    try:
        shutil.rmtree(folder, onerror=open_up)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def seed(workdir: Path, folder: Path | None, files: Mapping[str, str]) -> None:
    """Fill a fresh scratch folder: with a folder's content, then with single files.

    Raises:
        TaskError: a file cannot be copied, or would lie outside.
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
    """Copy a folder at rest: plain files and folders, no link followed, bounded; what was left out."""
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


def _walk(source: Path, skipped: list[Skipped]) -> Iterator[tuple[os.DirEntry[str], Path, int]]:
    """Everything below a folder, each folder before its content."""
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
    """Copy one plain file; how many bytes, or why not."""
    try:
        # Opened without following a link and without waiting for a pipe's other end; then asked what it is.
        handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    with os.fdopen(handle, "rb") as reader:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            return "no plain file"
        if status.st_size > room:
            return f"{status.st_size:,} bytes; a copy holds {MAX_BYTES:,} in all"
        size = 0
        with target.open("xb") as writer:
            while chunk := reader.read(_CHUNK):
                size += len(chunk)
                writer.write(chunk)
        target.chmod(0o600 | (status.st_mode & 0o100))
    return size
