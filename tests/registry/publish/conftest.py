"""A publisher with an empty home, and a place for what is only on its way."""

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, walled: None) -> dict[str, str]:
    """The variables of a user who has nothing yet; what is temporary lies in a folder of the test's."""
    (tmp_path / "temporary").mkdir()
    given = {
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "TMPDIR": str(tmp_path / "temporary"),
        "COLUMNS": "300",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    for name in ("ROLLOUTHUB_REGISTRY", "ROLLOUTHUB_REGISTRY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", None)
    return given
