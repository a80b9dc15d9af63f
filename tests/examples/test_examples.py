"""Every file in examples/ runs and does what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import warm

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
RUN_HERE = {"async_training.py", "dice.py"}
RUN_BY_CI = {"quickstart.sh"}
"""Sets up an environment from nothing, so it is CI's to run: the README's main job."""


def play(example: str, folder: Path, *options: str) -> dict[str, Any]:
    """Run an environment file; the figures of the run."""
    done = warm().run(["run", str(EXAMPLES / example), *options, "--json", "-q"], folder, os.environ, 180)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_example_is_left_out() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == RUN_HERE | RUN_BY_CI


def test_ci_runs_the_quickstart() -> None:
    assert os.access(EXAMPLES / "quickstart.sh", os.R_OK)
    assert "sh examples/quickstart.sh" in (ROOT / "README.md").read_text()


def test_dice_can_be_won(tmp_path: Path) -> None:
    run = play("dice.py", tmp_path, "--limit", "20")
    assert (run["scored"], run["mean_reward"], run["pass_rate"]) == (20, 1.0, 1.0)


def test_dice_gives_nothing_for_nothing(tmp_path: Path) -> None:
    run = play("dice.py", tmp_path, "--limit", "20", "-a", "null")
    assert (run["scored"], run["mean_reward"], run["pass_rate"]) == (20, 0.0, 0.0)


@pytest.mark.parametrize("target", [6, 30])
def test_dice_takes_its_settings(tmp_path: Path, target: int) -> None:
    run = play("dice.py", tmp_path, "--set", f"target={target}", "--set", "size=5")
    assert (run["rollouts"], run["mean_reward"]) == (5, 1.0)


def test_a_trainer_that_pulls_takes_its_steps(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", EXAMPLES / "async_training.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith("step ")]
    assert [line.partition(",")[0] for line in steps] == [f"step {number}: 4 groups" for number in range(5)]
    assert "20 groups of" in done.stdout.splitlines()[-1]
