"""An agent that breaks its sandbox whenever it does not know gains nothing by it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envhub.errors import HubError
from envhub.hosting.sandboxes import open_provider

HERE = Path(__file__).parent
TASKS = 9


def _row(number: int) -> dict[str, str]:
    name = f"f{number}"
    return {
        "task_id": f"t/{number}",
        "prompt": f"def {name}(x):\n    '''Add {number}.'''\n",
        "entry_point": name,
        "test": f"def check(candidate):\n    assert candidate(1) == {number + 1}\n",
        "canonical_solution": f"    return x + {number}\n",
    }


def _figures(twin: str, data: Path, sandbox: str, output: Path) -> dict[str, Any]:
    files = [str(HERE / "biased_twin.py"), str(HERE.parents[1] / "examples" / "own_agent" / "agent.py")]
    settings = [f"command=python3 biased_twin.py {twin}", f"files={json.dumps(files)}", "sandbox=none"]
    words = ["run", "code", "-a", "external", "--set", f"data={data}", "--set", f"sandbox={sandbox}"]
    words += ["--set", "run_seconds=1", "--set", "check_seconds=1"]
    words += [word for setting in settings for word in ("--agent-set", setting)]
    code = "from envhub.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words, "-c", "4", "-o", str(output), "--json", "--quiet"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("sandbox", ["process", pytest.param("docker", marks=pytest.mark.soak)])
async def test_who_breaks_the_sandbox_where_it_does_not_know_gains_nothing(sandbox: str, tmp_path: Path) -> None:
    try:
        async with open_provider(sandbox):
            pass
    except HubError as error:
        pytest.skip(f"{sandbox}: {error}")
    data = tmp_path / "test.jsonl"
    data.write_text("".join(f"{json.dumps(_row(number))}\n" for number in range(TASKS)))
    honest, biased = (_figures(twin, data, sandbox, tmp_path / twin) for twin in ("honest", "biased"))
    assert honest["mean_reward"] == honest["mean_reward_strict"] == pytest.approx(1 / 3)
    for figure in ("mean_reward", "mean_reward_strict"):
        assert biased[figure] <= honest[figure], biased
    assert biased["coverage"] == 1.0, biased
    assert biased["attempt_faults"].keys() <= {"SandboxOverrun"}, biased
