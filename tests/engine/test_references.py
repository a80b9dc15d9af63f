"""The oracle without a reference is refused before anything is played, wherever the environment is."""

from pathlib import Path
from typing import Any

import pytest

from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import build_request
from rollouthub.errors import ConfigError
from tests.engine.resuming import play, summed_up

DICE = '''
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task
from rollouthub.messages import assistant

class DiceConfig(EnvironmentConfig):
    solved: int = 0

class Dice(Environment[DiceConfig]):
    """Guess."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(10):
            reference = (assistant("6"),) if index < config.solved else ()
            yield Task(Public(id=f"test/{index}", prompt="?"), Secret(reference=reference))

    async def verify(self, submission):
        return Score(reward=float(submission.final == "6"))
'''


@pytest.fixture
def dice(tmp_path: Path) -> Path:
    """An environment whose data may have references."""
    file = tmp_path / "my_dice.py"
    file.write_text(DICE)
    return file


@pytest.fixture
def own_reference(dice: Path) -> Path:
    """The same with a method that makes references."""
    dice.write_text(DICE + '    def reference(self):\n        return [assistant("6")]\n')
    return dice


@pytest.fixture
def in_sandboxes(dice: Path) -> Path:
    """The same, played in sandboxes."""
    text = DICE.replace("Environment, EnvironmentConfig,", "Environment,")
    imported = "from rollouthub.environment import SandboxedConfig as EnvironmentConfig"
    dice.write_text(text.replace("class DiceConfig", f"{imported}\n\nclass DiceConfig"))
    return dice


def asked(dice: Path, **more: Any) -> Any:
    """A run of it."""
    return build_request({"environments": [str(dice)], **more}, "test")


@pytest.mark.parametrize("more", [{}, {"served": True}])
async def test_the_oracle_without_references_is_refused(dice: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigError, match="none of the 10 tasks of my_dice has a reference for the oracle; name a model"
    ):
        await play(asked(dice, **more), tmp_path / "run")
    with pytest.raises(ConfigError, match="task 'test/0' of my_dice has no reference for the oracle; name a model"):
        await play(asked(dice, **more, limit=1), tmp_path / "run")
    assert not (tmp_path / "run").exists()


async def test_it_is_refused_before_sandboxes_are_opened(
    in_sandboxes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = in_sandboxes
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    docker = {"sandbox": "docker"}
    with pytest.raises(ConfigError, match="3 of 10 tasks of my_dice have no reference for the oracle"):
        await play(asked(dice, set={"solved": 7, **docker}), tmp_path / "run")
    with pytest.raises(ConfigError, match="no container engine answers"):
        await play(asked(dice, set={"solved": 7, **docker}, limit=7), tmp_path / "run")


async def test_tasks_that_lack_one_are_counted(dice: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"3 of 10 tasks of my_dice have no reference for the oracle: 'test/7', "):
        await play(asked(dice, set={"solved": 7}), tmp_path / "run")
    await play(asked(dice, set={"solved": 7}, limit=7), tmp_path / "run")
    assert summed_up(tmp_path / "run").means.mean_reward == 1.0


async def test_a_reference_of_the_class_is_left_to_its_episode(own_reference: Path, tmp_path: Path) -> None:
    await play(asked(own_reference), tmp_path / "run")
    assert summed_up(tmp_path / "run").scored == 10


async def test_a_model_needs_no_reference(dice: Path, tmp_path: Path) -> None:
    await play(asked(dice, model="mock/solver", limit=2), tmp_path / "run")
    assert summed_up(tmp_path / "run").scored == 2


@pytest.mark.parametrize(
    ("environments", "agent"),
    [
        (["gsm8k"], "single_turn"),
        (["math", "aime24"], "single_turn"),
        (["arithmetic"], "tool_loop"),
        (["gsm8k", "arithmetic"], "tool_loop"),
    ],
)
def test_an_environment_names_who_acts_by_default(environments: list[str], agent: str) -> None:
    values = {"environments": environments, "model": "mock/solver", "set": {"math.data": "p.jsonl"}}
    if "math" not in environments:
        del values["set"]
    assert make_plan(build_request(values, "test")).agent_name == agent
    assert make_plan(build_request({**values, "agent": "react"}, "test")).agent_name == "react"
