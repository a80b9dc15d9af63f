"""The loop that learns: its held-out tasks are no training tasks, its policy gains, and a killed one goes on alike."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rollouthub.store import open_run

pytestmark = pytest.mark.live
EXAMPLE = Path(__file__).parents[3] / "examples" / "learning" / "calculator.py"
STEPS = 14
System = Callable[[str], ModuleType]


def command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, str(EXAMPLE), "-o", str(folder), "--steps", str(STEPS), *options]


def environment() -> dict[str, str]:
    return {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def rewards(folder: Path) -> dict[int, float]:
    """The mean reward of each step, as it was logged last."""
    lines = (folder / "rollouts" / "trainer.jsonl").read_text().splitlines()
    return {line["step"]: line["metrics"]["reward"] for line in map(json.loads, lines)}


def prompts(folder: Path) -> set[str]:
    with open_run(folder) as run:
        return {str(rollout.turns[0].messages[-1].content) for rollout in run.rollouts() if rollout.turns}


def test_a_killed_training_goes_on_as_one_that_was_not(system: System, tmp_path: Path) -> None:
    system("trl")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole), check=True, timeout=900, env=environment(), capture_output=True)
    with subprocess.Popen(
        command(broken), stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step  12"):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    figures = tmp_path / "figures.json"
    given = command(broken, "--figures", str(figures))
    subprocess.run(given, check=True, timeout=900, env=environment(), capture_output=True)
    told = json.loads(figures.read_text())
    assert [point["step"] for point in told["curve"]] == [11, 12, 13, 14]  # from the checkpoint of step 10
    assert rewards(broken) == pytest.approx(rewards(whole), abs=0.1)
    assert told["untrained"] < 0.05
    assert told["before"] < 0.5
    assert prompts(broken / "pass-after").isdisjoint(prompts(broken / "rollouts") | prompts(broken / "reference"))
