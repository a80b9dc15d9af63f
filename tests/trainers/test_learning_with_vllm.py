"""The example's loop with a live vLLM: what it samples is what the trainer's newest weights say.

`ROLLOUTHUB_VLLM` names a vllm executable.
"""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from rollouthub.store import open_run

EXAMPLE = Path(__file__).parents[2] / "examples" / "learning" / "with_vllm.py"
PATIENCE_SECONDS = 400
STEPS = 3
EPISODES = 72
ROUNDING = 1e-3
"""Of float32 on either side; a step of learning moves a log-probability by more."""


@pytest.mark.live
def test_a_live_vllm_plays_every_step_with_the_weights_of_the_one_before(
    system: Callable[[str], ModuleType], tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    program = os.environ.get("ROLLOUTHUB_VLLM")
    if not program:
        pytest.skip("ROLLOUTHUB_VLLM names no vllm")
    system("trl")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    told = tmp_path / "steps.json"
    given = ("--vllm", program, "--port", str(port), "--steps", str(STEPS), "--directory", str(tmp_path))
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [sys.executable, str(EXAMPLE), *given, "--curve", str(told)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps = json.loads(told.read_text())
    record_property("steps", steps)
    assert [step["step"] for step in steps] == [1, 2, 3]
    assert all(step["apart"] < ROUNDING for step in steps)
    assert [step["rows"] for step in steps] == [EPISODES] * STEPS
    assert f"version {STEPS - 1}\n" in done.stdout
    with open_run(tmp_path / "run") as run:
        versions = Counter(rollout.policy_version_min for rollout in run.rollouts())
    assert versions == dict.fromkeys(range(STEPS), EPISODES)
    with socket.socket() as again:  # what it started, it ended
        assert again.connect_ex(("127.0.0.1", port)) != 0
