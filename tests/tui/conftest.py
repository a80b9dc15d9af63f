"""Runs to look at, made once for all tests of a process."""

import json
import tempfile
from pathlib import Path

import anyio
import pytest

from tests.tui.episodes import BEGAN
from tests.tui.made import finished_run, hostile_run, settle, worse_run


async def _make(folder: Path) -> None:
    await finished_run(folder / "runs" / "good")
    await worse_run(folder / "runs" / "worse")
    settle(folder / "runs" / "worse", created_at=json.dumps(BEGAN - 3600.0), run_id="20260921T131320-4567cdef")
    await hostile_run(folder / "hostile" / "run")


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `runs/good`, `runs/worse` and `hostile/run`; only to be read."""
    folder = tmp_path_factory.mktemp("made")
    anyio.run(_make, folder)
    return folder


@pytest.fixture
def at_home(made_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without settings; the folder one is in has the made runs, so that no path of this machine is shown."""
    monkeypatch.chdir(made_runs)
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where tests' folders are is settled before any test says that temporary files are elsewhere."""
    tmp_path_factory.getbasetemp()


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other hub of this machine is seen: without a runtime folder, their sockets are among the temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
