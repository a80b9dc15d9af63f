"""The evaluation of a checkpoint, at a small size: figures per set, and runs that go on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "evaluate_checkpoint" / "evaluate.py"


def evaluate(folder: Path, *options: str) -> list[dict[str, object]]:
    """What it writes."""
    command = [sys.executable, "-W", "error", EXAMPLE, "-m", "mock/solver?accuracy=0.5", "-o", folder / "out", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(json.loads((folder / "out" / "evaluation.json").read_text()))
    return json.loads((folder / "out" / "evaluation.json").read_text())


@pytest.mark.live
def test_a_set_is_measured_by_averages_and_passes_of_k(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rows = [{"problem": f"What is {number} + 25?", "answer": str(number + 25)} for number in range(6)]
    (data / "test_amc.json").write_text(json.dumps(rows))
    options = ("--data", str(data), "--sets", "amc", "--repeats", "4", "--limit", "5")
    (found,) = evaluate(tmp_path, *options)
    assert (found["set"], found["k"], found["problems"], found["coverage"]) == ("amc", 4, 5, 1.0)
    run = json.loads(
        subprocess.run(
            [Path(sys.executable).with_name("hub"), "report", tmp_path / "out" / "amc", "--format", "json"],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        ).stdout
    )
    assert run["runs"][0]["at_k"][-1]["avg_at_k"]["value"] == found["avg"]
    assert evaluate(tmp_path, *options) == [found], "nothing is played twice"


@pytest.mark.live
def test_real_sets_are_measured(tmp_path: Path, real_data: Path) -> None:
    found = evaluate(tmp_path, "--data", str(real_data / "deepscaler"), "--repeats", "2", "--limit", "3")
    assert [(each["set"], each["k"], each["problems"]) for each in found] == [
        ("aime24", 2, 3),
        ("amc", 2, 3),
        ("math500", 2, 3),
    ]
