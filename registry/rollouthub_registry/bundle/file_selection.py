"""Selects the files of an environment's folder that go into its bundle."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.ignore_rules import Ignored
from rollouthub_registry.bundle.limits import FILE_BYTES, FILES, PATH_PARTS, TOTAL_BYTES
from rollouthub_registry.bundle.paths import PathSet
from rollouthub_registry.bundle.secrets import check_name

_KINDS = {
    stat.S_IFLNK: "a symbolic link; put the file itself there",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True)
class SourceFile:
    """A file that goes into a bundle."""

    path: str
    """Path inside the bundle."""
    file: Path
    size: int
    is_executable: bool


class Tally:
    """Counts the files and bytes of a bundle, and refuses files that are too many, too large or not allowed."""

    def __init__(self) -> None:
        self._paths, self._count, self._bytes = PathSet(), 0, 0

    def add(self, path: str, size: int) -> None:
        """Count a file.

        Raises:
            BundleRefused: the file is not allowed in a bundle, or exceeds a limit.
        """
        self._paths.add(path)
        check_name(path)
        if path == "setup.py":
            raise BundleRefused("'setup.py' would run code at install; describe the package in pyproject.toml")
        self._count, self._bytes = self._count + 1, self._bytes + size
        if size > FILE_BYTES:
            raise BundleRefused(
                f"{path!r} has {size:,} bytes; a file may have {FILE_BYTES:,}: let the manifest name a URL for it"
            )
        if self._count > FILES:
            raise BundleRefused(f"there are more than {FILES:,} files (at {path!r}); ignore some in .hubignore")
        if self._bytes > TOTAL_BYTES:
            raise BundleRefused(f"the files have more than {TOTAL_BYTES:,} bytes together (at {path!r})")


def collect(folder: Path) -> list[SourceFile]:
    """The files of a folder that are not ignored, in the order of the bundle.

    Raises:
        BundleRefused: a file is not allowed in a bundle.
    """
    tally, ignored = Tally(), Ignored(folder)
    try:
        found = sorted(_walk(folder, "", ignored), key=lambda source: source.path.encode())
    except OSError as error:
        raise BundleRefused(f"{error.filename} cannot be read: {error.strerror}") from error
    for source in found:
        tally.add(source.path, source.size)
    return found


def _walk(folder: Path, prefix: str, ignored: Ignored) -> Iterator[SourceFile]:
    if prefix.count("/") > PATH_PARTS:
        PathSet().add(prefix[:-1])
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        path, file = prefix + entry.name, Path(entry.path)
        try:
            entry.name.encode()
        except UnicodeEncodeError:
            raise BundleRefused(f"the name {path!a} is not UTF-8; rename it") from None
        if entry.is_dir(follow_symlinks=False):
            if not ignored.matches_folder(path, file):
                yield from _walk(file, path + "/", ignored)
        elif not ignored.matches_file(path):
            yield _source(path, file)


def _source(path: str, file: Path) -> SourceFile:
    status = file.lstat()
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise BundleRefused(f"{path!r} is {_KINDS.get(kind, 'no plain file')}; a bundle holds plain files alone")
    if status.st_nlink > 1:
        raise BundleRefused(f"{path!r} is a hard link, the same file as another; put a copy there")
    return SourceFile(path, file, status.st_size, bool(status.st_mode & stat.S_IXUSR))
