"""What an import leaves of a task of the shaped library."""

from pathlib import Path

import anyio
import pytest

from .shaped_host import asked, write_folder


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """The samples, as the driver gives them."""
    return anyio.run(lambda: asked("talk", "rows", start=0, count=9))


@pytest.fixture
def folder(tmp_path: Path, lines: list[str]) -> Path:
    """What an import leaves of a task."""
    return write_folder(tmp_path, lines)
