"""`python -m tests.gpu --cpu` as a user gives it, with the trainers, at the hub's stand-in for vLLM and at vLLM."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.page import HEAD
from tests.gpu.parts import PARTS
from tests.trainers.conftest import system
from tests.trainers.tiny import tiny_model
from tests.trainers.verl_set_up import System

__all__ = ["system"]

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 1500
NEEDED = ("torch", "transformers", "trl", "verl", "safetensors")


def measured(folder: Path, *options: str) -> dict[str, dict[str, Any]]:
    """The rows of a quick measurement, by part and name."""
    figures = folder / "figures.json"
    model = tiny_model(folder / "trained")
    command = [sys.executable, "-m", "tests.gpu", "--cpu", "--quick", "--model", str(model), *options]
    done = subprocess.run(
        [*command, "-o", str(folder / "out"), "--json", str(figures)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), *sys.path)))},
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.splitlines()[: len(HEAD)] == list(HEAD)
    rows = json.loads(figures.read_text())["rows"]
    assert [row for row in rows if row["verdict"] == "failed"] == []
    return {f"{row['part']}: {row['name']}": row for row in rows}


def holds(rows: dict[str, dict[str, Any]], parts: set[str]) -> None:
    """Check that every part found figures, and that what does not depend on speed reached its bar."""
    assert {row["part"] for row in rows.values() if row["verdict"] != "not tried"} == parts
    sure = ("drift", "drift-given", "update", "trl", "verl")
    missed = [name for name, row in rows.items() if row["part"] in sure and row["verdict"] == "missed"]
    assert missed == []
    assert rows["verl: main_ppo, one step"]["verdict"] == "not tried"
    assert rows["trl: steps of AsyncGRPOTrainer"]["value"] == 3


@pytest.fixture
def trainers(system: System) -> None:
    """The training systems, or a skip."""
    for name in NEEDED:
        system(name)


def test_all_but_sleep_runs_with_the_stand_in(trainers: None, tmp_path: Path) -> None:
    rows = measured(tmp_path, "--engine", "policy")
    holds(rows, {part.name for part in PARTS} - {"sleep"})
    (asleep,) = [row for row in rows.values() if row["part"] == "sleep"]
    assert "needs vLLM" in asleep["note"]


def test_all_of_it_runs_with_a_cpu_vllm(trainers: None, tmp_path: Path) -> None:
    program = os.environ.get("ROLLOUTHUB_VLLM")
    if not program:
        pytest.skip("ROLLOUTHUB_VLLM names no vllm")
    holds(measured(tmp_path, "--vllm", program), {part.name for part in PARTS})
