"""Removes folders that foreign programs wrote, however deeply nested; their content never causes an error."""

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_DEPTH = 100
"""Deepest nesting given to `shutil.rmtree`, which is recursive: a thousand levels would exceed Python's limit."""


def remove_folder(folder: Path | str) -> None:
    """Remove a folder with everything in it; files that the system refuses to remove stay."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        with suppress(OSError):
            _lift(folder)
        with suppress(RecursionError):
            shutil.rmtree(folder, ignore_errors=True)


def _lift(folder: Path | str) -> None:
    """Move deeply nested folders to the top of a folder."""
    top = os.open(folder, _FOLDER)
    try:
        waiting = _folders(top)
        while waiting:
            _lift_below(top, waiting.pop(), top, _DEPTH, waiting)
    finally:
        os.close(top)


def _lift_below(holder: int, name: str, top: int, depth: int, waiting: list[str]) -> None:
    with suppress(OSError):
        if depth == 0:
            lifted = f".lifted-{secrets.token_hex(8)}"
            os.rename(name, lifted, src_dir_fd=holder, dst_dir_fd=top)
            waiting.append(lifted)
            return
        folder = os.open(name, _FOLDER, dir_fd=holder)
        try:
            for each in _folders(folder):
                _lift_below(folder, each, top, depth - 1, waiting)
        finally:
            os.close(folder)


def _folders(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
