"""A publisher with an empty home, and a place for what is only on its way."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def home_in(folder: Path) -> Generator[dict[str, str]]:
    """The variables of a user who has nothing yet; what is temporary lies in `folder`, too."""
    (folder / "temporary").mkdir()
    given = {
        "HOME": str(folder / "home"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "TMPDIR": str(folder / "temporary"),
        "COLUMNS": "300",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        for name in ("ROLLOUTHUB_REGISTRY", "ROLLOUTHUB_REGISTRY_TOKEN"):
            patch.delenv(name, raising=False)
        patch.setattr("tempfile.tempdir", None)
        yield given


@pytest.fixture
def home(tmp_path: Path, walled: None) -> Generator[dict[str, str]]:
    """A home in the test's folder."""
    with home_in(tmp_path) as given:
        yield given
