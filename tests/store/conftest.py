"""Folders that the store's tests need beside `tmp_path`: one that others can reach, one on a small disk."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def shared_path() -> Iterator[Path]:
    """A folder whose parents every user can enter, as `tmp_path`'s cannot be."""
    folder = Path(tempfile.mkdtemp(prefix="rollouthub-test-"))
    folder.chmod(0o755)
    yield folder
    for below in (path for path in folder.rglob("*") if path.is_dir()):
        below.chmod(0o700)  # else its user, where that is not root, could not remove what is in it
    shutil.rmtree(folder)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
