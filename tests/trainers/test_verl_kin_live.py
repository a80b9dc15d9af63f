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
    # Ours first: theirs have folders `tests`, too.
    search = os.pathsep.join([str(HERE.parents[1]), os.environ["PYTHONPATH"]])
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


@pytest.mark.parametrize(
    "script",
    [
        "drive_verl_agent.py",
        "drive_verl_agent_pictures.py",
        "drive_verl_agent_rewards.py",
        "drive_verl_agent_groups.py",
    ],
)
def test_verl_agents_own_loop_drives_the_hub(
    checkout: Callable[..., Path], system: Callable[[str], ModuleType], tmp_path: Path, script: str
) -> None:
    system("torch")
    checkout("verl-agent")
    run(script, tmp_path)


@pytest.mark.parametrize("script", ["drive_easyr1.py", "drive_easyr1_pictures.py"])
def test_easyr1s_own_classes_take_the_hubs_rows_and_verdicts(
    checkout: Callable[..., Path], system: Callable[[str], ModuleType], tmp_path: Path, script: str
) -> None:
    system("torch")
    checkout("easyr1")
    run(script, tmp_path)
