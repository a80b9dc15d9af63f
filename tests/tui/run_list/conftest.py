"""Runs that play, for those that list them; and a temporary folder of each test's own, where nobody else's hubs are."""

import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.live.control.conftest import runtime, watch

__all__ = ["alone", "runtime", "watch"]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Hubs of this machine that use its temporary folder are not seen. Its name is short, as sockets' paths must be."""
    folder = Path(tempfile.mkdtemp(prefix="own"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    shutil.rmtree(folder)
