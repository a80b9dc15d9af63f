"""The folder examples/mcp_server is an environment as it stands."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "mcp_server"


@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1.0), pytest.param("null", 0.0, marks=pytest.mark.soak)])
def test_it_is_played_by_its_folder(agent: str, reward: float, tmp_path: Path) -> None:
    command = [Path(sys.executable).parent / "hub", "run", FOLDER, "-a", agent, "--json", "-q"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["scored"], run["mean_reward"]) == (2, reward)
