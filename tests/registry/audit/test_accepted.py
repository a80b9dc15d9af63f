"""An accepted set offers the sound tasks alone, wherever it is taken, and is an environment like any other."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rollouthub_registry.bundle.bundle import build_bundle
from tests.cli.conftest import warm

from .sets import SOUND, Said, hub_audit, seeded

EXAMPLE = Path(__file__).parents[3] / "examples" / "mcp_server"


def hub(folder: Path, *arguments: str | Path) -> Said:
    """Run `hub` in a process and a folder of its own."""
    done = warm().run([*map(str, arguments)], folder, os.environ, 300)
    return Said(done.returncode, done.stdout, done.stderr)


def played(folder: Path, environment: str, *more: str) -> dict[str, float]:
    """Task → what the oracle was paid, in a run."""
    run = hub(folder, "run", environment, "-a", "oracle", "-q", "-o", "run", *more)
    assert run.code == 0, run.err
    exported = hub(folder, "export", "run", "-o", "rows.jsonl")
    assert exported.code == 0, exported.err
    rows: list[dict[str, Any]] = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    return {row["task"]["id"]: row["score"]["reward"] for row in rows}


def test_a_files_accepted_set_is_played_where_the_file_is_gone(tmp_path: Path) -> None:
    file = seeded(tmp_path)
    made = hub_audit(file, "--split", "test", "-o", tmp_path / "a", "--accept", tmp_path / "out")
    assert made.code == 1
    assert "local/sums-accepted with the 4 sound tasks; 4 that are defective or undecided are left out" in made.out
    file.unlink()
    shutil.move(tmp_path / "out", tmp_path / "moved")
    assert played(tmp_path, "moved", "--seed", "5") == dict.fromkeys(SOUND, 1.0)


def test_a_kept_audit_is_accepted_later_with_its_settings(tmp_path: Path) -> None:
    file = seeded(tmp_path)
    hub_audit(file, "--set", "count=4", "--set", "start=x-", "-o", tmp_path / "a")
    assert hub_audit(tmp_path / "a", "--accept", tmp_path / "out").code == 1
    assert played(tmp_path, "out") == {"x-sum-0": 1.0, "x-sum-3": 1.0}


def test_a_shipped_environments_set_is_a_bundle_with_the_list_inside(tmp_path: Path) -> None:
    made = hub_audit("arithmetic", "--limit", "2", "-o", tmp_path / "a", "--accept", tmp_path / "out")
    assert made.code == 0
    bundle = build_bundle(tmp_path / "out", tmp_path / "bundles")
    assert str(bundle.release) == "local/arithmetic-accepted@0.1.0"
    assert "accepted/test.jsonl" in bundle.files
    assert len(played(tmp_path, "out")) == 2


def test_a_declared_servers_folder_is_copied_with_the_list(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    made = hub_audit(
        tmp_path / "shop", "--limit", "1", "--only", "oracle", "-o", tmp_path / "a", "--accept", tmp_path / "out"
    )
    assert made.code == 0, made.out
    shutil.rmtree(tmp_path / "shop")
    assert len(played(tmp_path, "out")) == 1
    again = hub_audit(tmp_path / "out", "--only", "oracle", "-o", tmp_path / "b", "--accept", tmp_path / "next")
    assert "examples/shopping-accepted with the 1 sound tasks" in again.out
    assert len(list((tmp_path / "next" / "accepted").iterdir())) == 1


def _harbor_task(folder: Path, *, answer: str, written: str) -> None:
    files = {
        "instruction.md": f"Write {answer} to /app/answer.txt.\n",
        "task.toml": 'schema_version = "1.3"\n[task]\nname = "made/here"\n[environment]\nworkdir = "/app"\n'
        'memory_mb = 256\ndocker_image = "debian:bookworm-slim"\n[agent]\ntimeout_sec = 60\n'
        "[verifier]\ntimeout_sec = 60\n",
        "solution/solve.sh": f"#!/bin/bash\necho {written} > /app/answer.txt\n",
        "tests/test.sh": f'#!/bin/bash\n[ "$(cat /app/answer.txt)" = {answer} ] && reward=1 || reward=0\n'
        "echo $reward > /logs/verifier/reward.txt\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_harbor_set_is_copied_without_the_tasks_that_are_broken(tmp_path: Path) -> None:
    docker: Any = pytest.importorskip("docker")
    try:
        docker.from_env().images.get("debian:bookworm-slim")
    except docker.errors.DockerException as error:
        pytest.skip(f"no container engine with an image: {error}")
    _harbor_task(tmp_path / "set" / "good", answer="seven", written="seven")
    _harbor_task(tmp_path / "set" / "broken", answer="seven", written="eight")
    _harbor_task(tmp_path / "elsewhere", answer="nine", written="nine")
    (tmp_path / "set" / "linked").symlink_to(tmp_path / "elsewhere")
    made = hub_audit(
        "terminal", "--set", f"data={tmp_path / 'set'}", "--set", "network=none", "--only", "oracle", "--repeats", "1",
        "-o", tmp_path / "a", "--accept", tmp_path / "out",
    )  # fmt: skip
    assert made.code == 1, made.out
    shutil.rmtree(tmp_path / "set")
    assert {path.name for path in (tmp_path / "out" / "data" / "set").iterdir()} == {"good", "linked"}
    assert not (tmp_path / "out" / "data" / "set" / "linked").is_symlink()
    assert played(tmp_path, "out", "--task", "linked") == {"linked": 1.0}


def test_a_set_without_a_sound_task_writes_nothing_and_says_so(tmp_path: Path) -> None:
    made = hub_audit(seeded(tmp_path), "--task", "sum-1", "-o", tmp_path / "a", "--accept", tmp_path / "out")
    assert made.code == 1
    assert "no task is sound" in made.out
    assert not (tmp_path / "out").exists()


def test_an_existing_place_several_environments_and_a_server_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    file = seeded(tmp_path)
    assert "is there already" in hub_audit(file, "-o", tmp_path / "a", "--accept", tmp_path / "out").refused()
    two = hub_audit(file, "arithmetic", "-o", tmp_path / "a", "--accept", tmp_path / "new").refused()
    assert "writes one environment, and 2 are audited" in two
    server = hub_audit("http://127.0.0.1:1", "-o", tmp_path / "a", "--accept", tmp_path / "new").refused()
    assert "is a running server" in server
    assert not (tmp_path / "a").exists()


def test_an_environment_that_is_gone_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    file = seeded(tmp_path)
    hub_audit(file, "-o", tmp_path / "a")
    file.unlink()
    said = hub_audit(tmp_path / "a", "--accept", tmp_path / "out").refused()
    assert "is not there any more" in said
    assert {path.name for path in tmp_path.iterdir()} == {"a"}
