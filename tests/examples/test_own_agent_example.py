"""The agent of one file plays, behind walls, as the documentation says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AGENT = ROOT / "examples" / "own_agent" / "agent.py"


@pytest.mark.live
def test_an_agent_of_one_file_plays_from_the_command_line(tmp_path: Path) -> None:
    command = [
        Path(sys.executable).parent / "hub",
        "run",
        "arithmetic",
        "--limit",
        "3",
        "-m",
        "mock/solver",
        "--json",
        "-q",
    ]
    options = ["-a", "external", "--agent-set", "command=python3 agent.py", "--agent-set", f"files={AGENT}"]
    done = subprocess.run([*command, *options], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["scored"], run["mean_reward"]) == (3, 1.0)


def test_it_needs_nothing_but_the_standard_library() -> None:
    imported = {
        line.split()[1].split(".")[0]
        for line in AGENT.read_text().splitlines()
        if line.startswith(("import ", "from "))
    }
    assert imported <= sys.stdlib_module_names
