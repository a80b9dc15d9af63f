"""Files made by the tools themselves, in interpreters of their own: their totals are ours.

`.ci/foreign.sh` makes the interpreters in `.ci/foreign/runs/NAME`; `ROLLOUTHUB_RUN_TOOLS` names another folder of them.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rollouthub.analysis.foreign_runs.open_foreign import read_whole
from rollouthub.rollout import Outcome
from rollouthub.store import RunReader, open_run

ROOT = Path(__file__).parents[3]
MADE_BY = Path(__file__).parent / "made_by"


def make(name: str, program: str, folder: Path) -> dict[str, Any]:
    """Run a program with a tool's interpreter; returns the totals that it says."""
    tools = Path(os.environ.get("ROLLOUTHUB_RUN_TOOLS") or ROOT / ".ci/foreign/runs")
    python = tools / name / "bin/python"
    if not python.exists():
        pytest.skip(f"needs {name} in an interpreter of its own (.ci/foreign.sh)")
    words = [str(python), str(MADE_BY / program), str(folder)]
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"HOME": str(folder)}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(run: RunReader, said: dict[str, Any]) -> None:
    """The tool's number of rollouts, of scored ones and their mean are those of what was read."""
    means = run.means()
    assert (sum(run.outcomes().values()), means.scored) == (said["count"], said["scored"])
    assert means.mean_reward == pytest.approx(said["mean"])
    assert run.info.remarks == ()
    assert run.info.status == "finished"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_logs_of_inspect(tmp_path: Path) -> None:
    pytest.importorskip("zstandard", reason="inspect_ai packs its logs with zstd")
    said = make("inspect", "inspect_log.py", tmp_path / "logs")
    logs = sorted((tmp_path / "logs").glob("*sums*"))
    assert [log.suffix for log in logs] == [".eval", ".json"]
    for log in logs:
        with open_run(read_whole(log)) as run:
            check(run, said)
            counts = list(run.group_counts())
            assert sum(g.reward_sum / g.scored for g in counts) / len(counts) == pytest.approx(said["task_mean"])
            [broken] = [record for record in run.rollouts() if record.score is None]
            assert (broken.task.id, broken.sample, broken.outcome) == ("d", 1, Outcome.ENVIRONMENT_FAILED)
            first = next(record for record in run.rollouts() if (record.task.id, record.sample) == ("a", 0))
            assert [turn.usage.output_tokens for turn in first.turns] == [5, 5]
            assert first.turns[0].tool_calls[0].name == "add"


def test_a_job_of_harbor(tmp_path: Path) -> None:
    said = make("harbor", "harbor_job.py", tmp_path / "job")
    with open_run(read_whole(tmp_path / "job")) as run:
        check(run, said)
        assert run.totals().cost == pytest.approx(0.03 * said["count"])
        assert {outcome.kind for outcome in run.outcomes()} == {"scored", "infrastructure_fault", "verifier_fault"}


def test_a_run_of_verifiers(tmp_path: Path) -> None:
    said = make("verifiers", "verifiers_run.py", tmp_path / "run")
    with open_run(read_whole(tmp_path / "run")) as run:
        check(run, said)
        first, *others = run.rollouts()
        assert first.trainable, first.trainable_reason
        assert not any(record.trainable for record in others)
        last = first.turns[1]
        assert last.prompt_token_ids is not None
        assert last.output_token_ids is not None
        assert [*last.prompt_token_ids, *last.output_token_ids] == [
            10 * node + each for node in range(5) for each in range(3)
        ]
        assert [record.outcome.value for record in others][2:] == ["model_failed", "sandbox_failed", "agent_failed"]


def test_spans_of_opentelemetry(tmp_path: Path) -> None:
    said = make("otel", "otel_spans.py", tmp_path / "spans")
    with open_run(read_whole(tmp_path / "spans" / "adder.jsonl")) as run:
        check(run, said)
        assert run.outcomes() == {Outcome.SCORED: 3, Outcome.VERIFIER_FAILED: 1, Outcome.MODEL_FAILED: 1}
        first = next(run.rollouts())
        assert [turn.parent_turn for turn in first.turns] == [None, 0]
        assert [message.role for message in first.turns[1].messages] == ["tool"]
