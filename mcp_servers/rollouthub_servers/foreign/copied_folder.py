"""Copies folders of foreign material, none of whose links may bring in files of this machine."""

import os
import shutil
import stat
from collections.abc import Callable, Collection
from pathlib import Path

from rollouthub.errors import ConfigError

MOST_BYTES = 16 << 30
MOST_FILES = 500_000
"""Links to folders are followed, and two that lead into each other double what is copied at each level."""

LeftOut = Callable[[str, list[str]], Collection[str]]
"""A folder and the names in it → the names that are not copied."""


def copy_folder(
    folder: Path,
    target: Path,
    left_out: LeftOut | None = None,
    *,
    within: Path | None = None,
    most_bytes: int = MOST_BYTES,
) -> None:
    """Copy a folder; links are followed within it, or within another folder that holds it.

    Raises:
        ConfigError: a link leads out of it, or it holds what is neither file nor folder, or too much.
    """
    root, size, count = (within or folder).resolve(), 0, 0
    checked_size(folder, root)

    def checked(place: str, names: list[str]) -> set[str]:
        nonlocal size, count
        skipped = set(left_out(place, names)) if left_out is not None else set[str]()
        for name in names:
            if name in skipped:
                continue
            path = Path(place, name)
            size, count = size + checked_size(path, root), count + 1
            if count > MOST_FILES:
                raise ConfigError(f"{folder.name}: it holds more than {MOST_FILES:,} files, or links without end")
            if size > most_bytes:
                raise ConfigError(f"{folder.name}: it is larger than {most_bytes:,} bytes")
        return skipped

    shutil.copytree(folder, target, ignore=checked)


def check_links(folder: Path, left_out: LeftOut) -> None:
    """Check a folder as `copy_folder` does, before anything of it is read.

    Raises:
        ConfigError: a link leads out of it, or it holds what is neither file nor folder.
    """
    root = folder.resolve()
    for place, folders, files in os.walk(root):
        skipped = set(left_out(place, [*folders, *files]))
        folders[:] = [name for name in folders if name not in skipped]
        for name in (*folders, *files):
            if name not in skipped:
                checked_size(Path(place, name), root)


def copy_file(file: Path, target: Path, within: Path) -> None:
    """Copy one file of a folder.

    Raises:
        ConfigError: it is a link that leads out of the folder, or no file.
    """
    checked_size(file, within.resolve())
    shutil.copy(file, target)


def checked_size(path: Path, root: Path) -> int:
    """Size in bytes of a file; 0 for a folder.

    Raises:
        ConfigError: the path is a link that leads out of `root`, or neither file nor folder.
    """
    where = f"{root.name}: {path.name}"
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise ConfigError(f"{where} is a link that leads out of it")
        details = path.stat()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"{where} cannot be read: {error}") from error
    if stat.S_ISDIR(details.st_mode):
        return 0
    if not stat.S_ISREG(details.st_mode):
        raise ConfigError(f"{where} is neither file nor folder")
    return details.st_size
