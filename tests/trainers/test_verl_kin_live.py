"""verl-agent's and EasyR1's own classes. Both are called `verl`, so that each is tried in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.live

HERE = Path(__file__).parent


def run(script: str, folder: Path) -> None:
    search = os.pathsep.join([os.environ["PYTHONPATH"], str(HERE.parents[1])])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / script), str(folder)],
        env={**os.environ, "PYTHONPATH": search, "HF_HUB_OFFLINE": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    assert "all is as it should be" in done.stdout


def test_verl_agents_own_loop_drives_the_hub(
    checkout: Callable[..., Path], system: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    system("torch")
    checkout("verl-agent")
    run("drive_verl_agent.py", tmp_path)


def test_easyr1s_own_reward_manager_scores_with_the_hubs_verifier(
    checkout: Callable[..., Path], system: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    system("torch")
    checkout("easyr1")
    run("drive_easyr1.py", tmp_path)
