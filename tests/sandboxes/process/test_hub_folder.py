"""Folders of process sandboxes: whose hub lives keeps its own, whose hub is dead loses it."""

import os
import tempfile
from pathlib import Path

import pytest

from rollouthub_sandboxes.process.hub_folder import PREFIX, own_folder, sweep_folders

LONG_AGO = (1_000_000_000, 1_000_000_000)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_dead_hubs_folder_is_removed_with_all_below(temporary: Path) -> None:
    left = temporary / f"{PREFIX}left"
    (left / "one" / "work").mkdir(parents=True)
    os.utime(left, LONG_AGO)
    assert sweep_folders() == 1
    assert not left.exists()


def test_a_live_hubs_folder_is_left_alone(temporary: Path) -> None:
    with own_folder() as mine:
        os.utime(mine, LONG_AGO)
        assert sweep_folders() == 0
        assert mine.exists()
    assert not mine.exists()


def test_what_is_fresh_is_a_link_or_somebody_elses_is_left_alone(temporary: Path) -> None:
    (temporary / f"{PREFIX}fresh").mkdir()
    (temporary / "other").mkdir()
    os.utime(temporary / "other", LONG_AGO)
    (temporary / f"{PREFIX}link").symlink_to(temporary / "other")
    (temporary / f"{PREFIX}file").touch()
    assert sweep_folders() == 0
    assert (temporary / "other").exists()
