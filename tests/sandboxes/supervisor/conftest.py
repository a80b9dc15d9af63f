"""A supervisor per test, and folders that any user may reach."""

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from envhub_sandboxes.supervisor.payload import payload_path
from tests.sandboxes.supervisor.wire import Victims, Wire


@pytest.fixture(scope="session")
def program() -> Generator[Path]:
    """The supervisor's program where any user may run it."""
    with tempfile.TemporaryDirectory(prefix="envhub-test-") as folder:
        Path(folder).chmod(0o755)
        yield Path(shutil.copy(payload_path("x86_64"), Path(folder, "supervisor")))


@pytest.fixture
def place() -> Generator[Path]:
    """A folder that any user may write to."""
    with tempfile.TemporaryDirectory(prefix="envhub-test-") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@pytest.fixture
def wire(program: Path) -> Generator[Wire]:
    """A running supervisor."""
    with Wire([program]) as wire:
        yield wire


@pytest.fixture
def victims(place: Path) -> Generator[Victims]:
    """A fifo that tells the living from the dead."""
    with Victims(place) as victims:
        yield victims
