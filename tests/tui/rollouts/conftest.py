"""Runs to list: made once for all, and only read."""

from collections.abc import Generator
from pathlib import Path

import anyio
import pytest

from tests.tui.made import finished_run


@pytest.fixture(scope="session")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Generator[Path]:
    """The ended run of three environments, with every kind of ending."""
    directory = tmp_path_factory.mktemp("listed") / "ended"
    anyio.run(finished_run, directory)
    yield directory
