"""What a server that somebody else runs says of its environment and its scores counts as if it were hosted here."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import play_run
from rollouthub.engine.run_request import build_request
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import ConfigError
from rollouthub.models.credentials import Credentials
from rollouthub.store import open_run
from tests.engine.resuming import Watching, stored, summed_up
from tests.hosting.server.wire_client import TOKEN, served


class Doubtful(Environment[EnvironmentConfig]):
    """One answer without tools, and a verifier that does not trust what it finds."""

    default_agent: ClassVar[str] = "single_turn"

    @classmethod
    def tasks(cls, config: EnvironmentConfig, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="one", prompt="?"), Secret())

    async def verify(self, submission: Submission) -> Score:
        return Score(reward=0.25, suspect="its test runner was replaced")


class Pushing(Doubtful):
    """It would have its reference played, whoever was asked."""

    default_agent = "oracle"


async def _play(url: str, directory: Path, **more: Any) -> None:
    values = {"environments": [url], "model": "mock/solver", "limit": 1, **more}
    plan = make_plan(build_request(values, "test"))
    await play_run(
        plan,
        directory,
        given="",
        resume=False,
        credentials=Credentials({"ROLLOUTHUB_CONTROL_TOKEN": TOKEN}),
        observer=Watching(),
        stop=StopSignal(),
    )


@pytest.mark.parametrize(("given", "agent"), [({}, "single_turn"), ({"agent": "react"}, "react")])
async def test_the_server_names_who_plays_unless_the_caller_does(
    tmp_path: Path, given: dict[str, str], agent: str
) -> None:
    async with served(Doubtful) as wire:
        await _play(wire.control_url, tmp_path / "run", **given)
    with open_run(tmp_path / "run") as run:
        (rollout,) = run.rollouts()
    assert stored(tmp_path / "run")[0]["agent"] == agent
    assert rollout.agent.name == agent


async def test_a_score_from_elsewhere_is_suspect(tmp_path: Path) -> None:
    async with served(Doubtful) as wire:
        opened = await wire.open()
        said = await wire.control("POST", f"/v1/episodes/{opened.id}/verify", {"submission": {"stop": "finished"}})
        assert said.json["score"]["suspect"] == "its test runner was replaced"
        await _play(wire.control_url, tmp_path / "run")
    with open_run(tmp_path / "run") as run:
        (rollout,) = run.rollouts()
    assert rollout.score is not None
    assert (rollout.score.reward, rollout.score.suspect) == (0.25, "its test runner was replaced")
    assert not rollout.trainable
    assert summed_up(tmp_path / "run").suspect == 1


async def test_a_server_cannot_choose_any_agent(tmp_path: Path) -> None:
    async with served(Pushing) as wire:
        with pytest.raises(ConfigError, match=r"names 'oracle' as its agent.*choose one yourself with -a"):
            await _play(wire.control_url, tmp_path / "run")
        await _play(wire.control_url, tmp_path / "run", agent="tool_loop")
