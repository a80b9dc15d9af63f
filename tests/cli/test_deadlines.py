"""Deadlines that an environment suggests hold; the caller's own win, also when a run is done again."""

import json
from pathlib import Path

from rollouthub.store import open_run
from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)

SLOW = """
import anyio
from rollouthub import Deadlines, Environment, EnvironmentConfig, Public, Score, Secret, Task

class Slow(Environment[EnvironmentConfig]):
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Go."), Secret())

    @classmethod
    def deadlines(cls, config):
        return Deadlines(verify=0.2)

    async def verify(self, submission):
        await anyio.sleep_forever()
        return Score(reward=1.0)
"""


def test_an_environments_own_deadline_is_in_force_unless_the_caller_gives_one(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "patient.toml").write_text("[deadlines]\nverify = 0.3\n")
    once = ("--json", "-q", "--retries", "0", "-a", "null")
    own = hub("run", "slow.py", *once, "-o", "own")
    assert own.code == 1
    assert "no score within 0.2 s" in json.dumps(own.json["fault_examples"])
    given = hub("run", "slow.py", *once, "--config", "patient.toml", "-o", "given")
    assert "no score within 0.3 s" in json.dumps(given.json["fault_examples"])
    for name, seconds in (("own", 0.2), ("given", 0.3)):
        resolved = json.loads((tmp_path / name / "resolved.json").read_text())
        assert resolved["environments"][0]["deadlines"]["verify"] == seconds
        again = hub("run", "--config", f"{name}/resolved.json", "--json", "-q", "-o", f"{name}-again")
        assert f"no score within {seconds} s" in json.dumps(again.json["fault_examples"])


def test_every_deadline_of_an_episode_is_an_option(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    given = {"setup": "90s", "model": "1m", "tool": "7m", "agent": "2h", "verify": "11", "close": "13s"}
    options = [text for name, time in given.items() for text in (f"--{name}-timeout", time)]
    assert hub("run", "arithmetic", "--limit", "1", "-q", "-o", "all", *options).code == 0
    resolved = json.loads((tmp_path / "all" / "resolved.json").read_text())
    seconds = {"setup": 90, "model_call": 60, "tool_call": 420, "agent": 7200, "verify": 11, "close": 13}
    assert resolved["request"]["deadlines"] == seconds
    # An episode holds its stages unless the caller says otherwise.
    assert resolved["environments"][0]["deadlines"] == {**seconds, "episode": 90 + 7200 + 11 + 13}
    assert hub("run", "arithmetic", "-q", "--episode-timeout", "1s", "--limit", "1", "-o", "own").code == 0
    resolved = json.loads((tmp_path / "own" / "resolved.json").read_text())
    assert resolved["environments"][0]["deadlines"]["episode"] == 1
    assert "--tool-timeout 'soon' is no time" in hub("run", "arithmetic", "--tool-timeout", "soon").refused()


def test_deadlines_of_scoring_and_serving_are_options(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "slow.py").write_text(
        SLOW.replace(
            "    @classmethod\n    def tasks", "    scores_transcripts = True\n\n    @classmethod\n    def tasks"
        )
    )
    (tmp_path / "in.jsonl").write_text('{"task_id": "one", "completion": "x"}\n')
    hub("run", "slow.py", "-a", "null", "--retries", "0", "-q", "-o", "run")
    for given, seconds in (((), 0.2), (("--verify-timeout", "0.4s"), 0.4)):
        assert hub("score", "in.jsonl", "--env", "slow.py", *given, "-q", "-o", f"{seconds}.jsonl").code == 1
        assert f"no score within {seconds} s" in (tmp_path / f"{seconds}.jsonl").read_text()
        hub("score", "run", "--env", "slow.py", *given, "-q", "-o", f"{seconds}-run")
        again = hub("show", f"{seconds}-run", "--json").json
        assert f"no score within {seconds} s" in json.dumps(again["fault_examples"])
    assert "--verify-timeout 'soon' is no time" in hub("score", "run", "--verify-timeout", "soon").refused()
    assert "--setup-timeout" in hub("score", "run", "--setup-timeout", "9s").refused()
    assert "--tool-timeout 'soon' is no time" in hub("serve", "arithmetic", "--tool-timeout", "soon").refused()


def test_tasks_are_chosen_on_the_command_line(hub: Hub, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "ids.txt").write_text("test/5\ntest/9?\n")
    done = hub("run", "arithmetic", "--task", "test/2", "--task", "@ids.txt", "--skip", "1", "--json", "-o", "some")
    assert done.json["rollouts"] == 11
    assert hub("run", "--resume", "-o", "some", "--json").json["rollouts"] == 11
    drawn = hub("run", "arithmetic", "--sample", "5", "--shuffle", "--seed", "3", "--json", "-o", "drawn")
    assert drawn.json["rollouts"] == 5
    again = hub("run", "--config", "drawn/resolved.json", "--json", "-o", "again")
    assert again.json["rollouts"] == 5
    assert _tasks(tmp_path / "drawn") == _tasks(tmp_path / "again")
    assert "did you mean 'test/2" in hub("run", "arithmetic", "--task", "test/2x").refused()
    assert "'tset/*'" in hub("run", "arithmetic", "--task", "tset/*").refused()


def _tasks(run: Path) -> list[str]:
    with open_run(run) as reader:
        return [row.task_id for row in reader.summaries()]
