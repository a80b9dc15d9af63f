"""Other tools' runs wherever a RUN is taken: each command is given the path of the file or folder itself."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.analysis.foreign_runs.sources import SOURCES, chat, inspect, inspect_json, verifiers
from tests.cli.conftest import Hub, environment, warm


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize("name", SOURCES)
def test_every_command_takes_its_path(hub: Hub, tmp_path: Path, name: str) -> None:
    (tmp_path / "source").mkdir()
    source = SOURCES[name](tmp_path / "source")
    facts = hub("show", source.path, "--json").json
    mean = sum(source.rewards) / len(source.rewards)
    assert facts["rollouts"] == source.count
    assert facts["scored"] == len(source.rewards)
    assert facts["mean_reward"] == pytest.approx(mean)
    assert f"Read from {name} files of" in facts["origin"][0]
    assert "not played here" in hub("show", source.path).out
    listed = hub("show", source.path, "--json", "--sort", "reward").out.splitlines()
    rollout = (json.loads(listed[0]) if listed[0].startswith("{") else json.loads("".join(listed))[0])["rollout_id"]
    assert hub("show", source.path, rollout).code == 0
    assert hub("report", source.path, "-o", "report.md").code == 0
    report = (tmp_path / "report.md").read_text()
    assert "not played here" in report
    assert "hub run --config" not in report
    assert hub("export", source.path, "-o", "rows.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == source.count
    assert not any(row["trainable"] for row in rows)
    other = shutil.copytree(tmp_path / "source", tmp_path / "other") / source.path.relative_to(tmp_path / "source")
    assert f"On {len({row['task']['id'] for row in rows})} common task" in hub("compare", source.path, other).out


def test_two_runs_of_two_tools_are_compared_by_their_tasks(hub: Hub, tmp_path: Path) -> None:
    found = hub("compare", inspect(tmp_path).path, inspect_json(tmp_path).path)
    assert found.code == 0, found.err
    assert "On 2 common tasks" in found.out


def test_what_is_said_of_a_run_names_the_path_that_was_given_and_no_times_that_it_has_not(
    hub: Hub, tmp_path: Path
) -> None:
    lines = [
        {
            "id": name,
            "reward": 1,
            "messages": [{"role": "user", "content": name}, {"role": "assistant", "content": "!"}],
        }
        for name in ("tea", "bread")
    ]
    for name, line in zip(("one.jsonl", "other.jsonl"), lines, strict=True):
        (tmp_path / name).write_text(json.dumps(line) + "\n")
    shown = hub("show", "one.jsonl").out
    assert f"Look inside with: hub show {tmp_path / 'one.jsonl'} ROLLOUT" in shown
    assert "p95" not in shown, "it has no times: an empty table says nothing"
    refused = hub("compare", "one.jsonl", "other.jsonl").refused()
    assert f"({tmp_path / 'one.jsonl'} has 1, {tmp_path / 'other.jsonl'} has 1)" in refused


def test_no_receipt_says_that_it_was_played_here(hub: Hub, tmp_path: Path) -> None:
    said = hub("attest", inspect(tmp_path).path, XDG_CONFIG_HOME=str(tmp_path / "config")).refused()
    assert "was read from inspect files of another tool" in said
    assert not (tmp_path / "config").exists()


def test_what_is_no_run_is_refused_with_the_formats(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing\n")
    for command in ("show", "report", "export"):
        assert "of no format that it reads as one" in hub(command, "notes.txt").refused()


def test_an_environment_scores_another_tool_s_rollouts_again(hub: Hub, tmp_path: Path) -> None:
    path = verifiers(tmp_path).path
    assert "hub score RUN --env ENV" in hub("score", path).refused()
    made = hub("run", "arithmetic", "-m", "mock/solver?accuracy=1", "--limit", "2", "-o", "own")
    assert made.code == 0, made.err
    hub("export", "own", "--to", "atif", "-o", "own.jsonl")
    assert (tmp_path / "own.jsonl").is_file()
    again = hub("score", "own.jsonl", "--env", "arithmetic", "--json")
    assert again.code == 0, again.err
    assert again.json["run"] == "runs/own.jsonl-rescored"
    assert hub("show", "runs/own.jsonl-rescored", "--json").json["mean_reward"] == 1.0


def test_lines_of_conversations_are_still_scored_one_by_one(hub: Hub, tmp_path: Path) -> None:
    said = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "1"}]
    (tmp_path / "lines.jsonl").write_text(json.dumps({"task_id": "test/0", "messages": said}) + "\n")
    done = hub("score", "lines.jsonl", "--env", "arithmetic", "-o", "scored.jsonl")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "scored.jsonl").read_text())["score"]["reward"] == 0.0


def test_hub_watch_follows_it_to_its_end(tmp_path: Path) -> None:
    path = chat(tmp_path).path
    words = ["watch", str(path), "--text"]
    variables = environment(XDG_CACHE_HOME=os.environ["XDG_CACHE_HOME"])
    done = warm().run(words, tmp_path, variables, 180)
    assert done.returncode == 0, done.stderr
    assert "Read from chat files of OpenAI chat JSONL, not played here" in done.stdout
