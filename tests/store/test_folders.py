"""Folders that others wrote in are removed, however they are made."""

import os
from pathlib import Path

from rollouthub.store.folders import remove_folder


def nested(place: Path, depth: int) -> None:
    """Folders in each other, each with a file, made as no path could name them."""
    folder = os.open(place, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)


def test_folders_in_each_other_are_removed_however_many(tmp_path: Path) -> None:
    folder, kept = tmp_path / "folder", tmp_path / "kept"
    for place in (folder / "one", folder / "two", kept):
        place.mkdir(parents=True)
    (kept / "file").touch()
    (folder / "link").symlink_to(kept)
    nested(folder / "one", 3000)
    nested(folder / "two", 5)
    remove_folder(folder)
    assert not folder.exists()
    assert (kept / "file").exists()


def test_a_folder_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    remove_folder(tmp_path / "none")
