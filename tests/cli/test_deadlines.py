"""Deadlines that an environment suggests hold; the caller's own win, also when a run is done again."""

import json
from pathlib import Path

from tests.cli.conftest import (
    Hub,
    hub,  # pyright: ignore[reportUnusedImport]  # noqa: F401  # a fixture
)

SLOW = """
import anyio
from envhub import Deadlines, Environment, EnvironmentConfig, Public, Score, Secret, Task

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
