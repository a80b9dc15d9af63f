"""The example's loop with TRL as the learner: it samples with the newest weights, in an own server or vLLM, and gains.

`ROLLOUTHUB_VLLM` names a vllm executable.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rollouthub.store import open_run
from tests.gpu.engines import Engines

pytestmark = pytest.mark.live
EXAMPLE = Path(__file__).parents[2] / "examples" / "learning" / "with_trl.py"
STEPS, EPISODES = 3, 128
ROUNDING = 1e-3
"""Of float32 on either side, in nats; a step of learning moves a log-probability by more."""
System = Callable[[str], ModuleType]


def run_example(folder: Path, *options: str) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLE), "-o", str(folder), *options]
    done = subprocess.run(command, check=False, timeout=1_500, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]


def learnt(folder: Path, steps: int, *options: str) -> dict[str, Any]:
    """The figures of a training."""
    figures = folder.with_suffix(".json")
    run_example(folder, "--steps", str(steps), "--figures", str(figures), *options)
    return json.loads(figures.read_text())


def assert_newest_weights_played(folder: Path, told: dict[str, Any]) -> None:
    """Every step was sampled with the weights that TRL had then."""
    curve = told["curve"]
    assert [step["step"] for step in curve] == [1, 2, 3]
    assert all(step["apart"] < ROUNDING for step in curve)
    with open_run(folder / "rollouts") as run:
        versions = Counter(rollout.policy_version_min for rollout in run.rollouts())
    assert versions == {0: EPISODES, 2: EPISODES, 4: EPISODES}, "two optimizer steps a batch"
    assert told["version"] == "6"


def test_each_step_plays_with_the_weights_of_the_one_before(system: System, tmp_path: Path) -> None:
    system("trl")
    folder = tmp_path / "own"
    told = learnt(folder, STEPS)
    assert_newest_weights_played(folder, told)
    assert [step["rows"] for step in told["curve"]] == [EPISODES] * STEPS, "a prompt begins with what was sampled"


async def test_a_live_vllm_plays_each_step_with_the_weights_of_the_one_before(system: System, tmp_path: Path) -> None:
    program = os.environ.get("ROLLOUTHUB_VLLM")
    if not program:
        pytest.skip("ROLLOUTHUB_VLLM names no vllm")
    system("trl")
    folder = tmp_path / "vllm"
    run_example(folder, "--prepare")
    async with Engines("vllm", program, is_cpu=True, logs=tmp_path) as engines:
        served = await engines.serve(
            "policy", folder / "start", context=512, arguments=("--dtype", "float32", "--enforce-eager")
        )
        assert_newest_weights_played(folder, learnt(folder, STEPS, "--base-url", served.url))


@pytest.mark.soak
def test_trl_learns_to_use_the_calculator(system: System, tmp_path: Path) -> None:
    system("trl")
    told = learnt(tmp_path / "trl", 24)
    assert told["before"] < 0.3
    assert told["after"] > told["before"] + 0.2
