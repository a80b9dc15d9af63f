"""The loop that learns: its held-out tasks are no training tasks, its policy gains, and a killed one goes on alike."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rollouthub.store import open_run
from tests.yardstick import quiet_seconds

pytestmark = pytest.mark.live
EXAMPLE = Path(__file__).parents[3] / "examples" / "learning" / "calculator.py"
STEPS = 14
VARIANTS = ("grpo", "dr_grpo", "dapo", "rloo", "gspo")
CPU_SECONDS = 180.0
"""Of one training and its policy server, on a quiet machine."""
System = Callable[[str], ModuleType]


def command(folder: Path, *options: str) -> list[str]:
    return [sys.executable, str(EXAMPLE), "-o", str(folder), *options]


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
    short = ("--steps", str(STEPS))
    subprocess.run(command(whole, *short), check=True, timeout=900, env=environment(), capture_output=True)
    last = random.randint(2, STEPS - 1)
    with subprocess.Popen(
        command(broken, *short), stdout=subprocess.PIPE, text=True, env=environment(), start_new_session=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(f"step {last:3d}"):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    figures = tmp_path / "figures.json"
    given = command(broken, *short, "--figures", str(figures))
    subprocess.run(given, check=True, timeout=900, env=environment(), capture_output=True)
    told = json.loads(figures.read_text())
    assert [point["step"] for point in told["curve"]] == list(range(last // 10 * 10 + 1, STEPS + 1)), last
    assert rewards(broken) == pytest.approx(rewards(whole), abs=0.1)
    assert told["untrained"] < 0.05
    assert told["before"] < 0.5
    assert prompts(broken / "pass-after").isdisjoint(prompts(broken / "rollouts") | prompts(broken / "reference"))


def learnt(folder: Path, seed: int, variant: str) -> dict[str, Any]:
    """The figures of a whole training."""
    figures = folder / "figures.json"
    options = ("--seed", str(seed), "--variant", variant, "--figures", str(figures))
    subprocess.run(command(folder, *options), check=True, timeout=1_800, env=environment(), capture_output=True)
    return json.loads(figures.read_text())


def test_a_policy_learns_to_use_the_calculator(system: System, tmp_path: Path) -> None:
    system("trl")
    told = learnt(tmp_path, 1, "grpo")
    assert told["untrained"] < 0.05
    assert told["before"] < 0.3
    assert told["after"] > 0.9
    assert quiet_seconds(sum(told["cpu_seconds"].values())) < CPU_SECONDS


@pytest.mark.soak
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("seed", range(5))
def test_every_variant_learns_from_every_seed(system: System, tmp_path: Path, seed: int, variant: str) -> None:
    system("trl")
    told = learnt(tmp_path, seed, variant)
    assert told["before"] < 0.3
    assert told["after"] > 0.9
