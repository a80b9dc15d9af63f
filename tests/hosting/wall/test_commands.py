"""Commands that run an installed environment: behind a wall unless told otherwise, and the record says which."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rollouthub.hosting.wall.wall import Wall
from rollouthub.processes import HUB
from tests.hosting.wall.evil import ROOT

SHOPPING = "examples/shopping@0.1.0"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which an example is installed: a declared server, which the hub's own interpreter serves."""
    folder = tmp_path_factory.mktemp("installed")
    done = hub(folder, folder, "install", str(ROOT / "examples" / "mcp_server"))
    assert done.returncode == 0, done.stderr
    return folder


def hub(data: Path, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command, with installations in `data`."""
    homes = {"XDG_DATA_HOME": str(data / "data"), "XDG_CONFIG_HOME": str(data / "config")}
    return subprocess.run(
        [*HUB, *words],
        cwd=folder,
        env={**os.environ, **homes, **more},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def run_record(data: Path, folder: Path, *words: str, **more: str) -> tuple[str, list[str], str]:
    """Play one episode of the example: the isolation and openings on its record, and what the run said."""
    out = folder / f"run-{len(list(folder.iterdir()))}"
    done = hub(data, folder, "run", SHOPPING, "-a", "oracle", "--limit", "1", "-o", str(out), *words, **more)
    assert done.returncode == 0, done.stderr
    exported = hub(data, folder, "export", str(out), "-o", str(out) + ".jsonl")
    assert exported.returncode == 0, exported.stderr
    record = json.loads(Path(str(out) + ".jsonl").read_text().splitlines()[0])
    assert record["score"]["reward"] == 1.0
    return record["isolation"], record["openings"], done.stdout + done.stderr


def test_a_run_records_the_wall_that_was_asked_for(data: Path, wall: Wall, tmp_path: Path) -> None:
    isolation, openings, _ = run_record(data, tmp_path, "--wall", wall.kind)
    assert (isolation, openings) == (wall.kind, [])


def test_who_is_trusted_has_no_wall(data: Path, tmp_path: Path) -> None:
    assert run_record(data, tmp_path, "--trust")[0] == "process"


def test_a_wall_that_does_not_work_here_is_refused(data: Path, tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/engine.sock"
    done = hub(
        data, tmp_path, "run", SHOPPING, "-a", "oracle", "--limit", "1", "--wall", "container", DOCKER_HOST=nowhere
    )
    assert done.returncode == 2, done.stderr
    assert "--wall container was asked for, and does not work here" in done.stderr
    assert "--trust" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_any_wall_it_runs_with_a_warning(data: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("true", "sh", "env"):
        (programs / name).symlink_to(shutil.which(name) or "/bin/sh")
    isolation, _, said = run_record(data, tmp_path, DOCKER_HOST=f"unix://{tmp_path}/engine.sock", PATH=str(programs))
    assert isolation == "process"
    assert "run without a wall" in said
