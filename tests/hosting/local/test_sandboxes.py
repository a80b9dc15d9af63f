"""Which sandboxes a run takes, as the command line tells it."""

from pathlib import Path

import pytest

from rollouthub.errors import ConfigError
from rollouthub.hosting.local.episode_sandboxes import open_provider
from tests.cli.conftest import Hub
from tests.cli.conftest import hub as hub

YARD = """
from rollouthub import Environment, Public, Score, Secret, Task
from rollouthub.environment import SandboxedConfig
from rollouthub.sandbox import SandboxSpec

class Yard(Environment[SandboxedConfig]):
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Rest."), Secret())

    @classmethod
    def specs(cls, config):
        return (SandboxSpec(),)

    def sandbox_spec(self):
        return SandboxSpec()

    async def verify(self, submission):
        return Score(reward=float((await self.sandbox.exec("true")).exit_status == 0))
"""


def test_weaker_walls_than_asked_for_first_are_told_on_the_screen(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "yard.py").write_text(YARD)
    done = hub("run", "yard.py", "-a", "null", "--json", DOCKER_HOST=f"unix://{tmp_path}/nobody.sock")
    assert done.code == 0, done.err
    assert "no container engine is at hand" in done.err
    assert "nobody.sock" in done.err
    named = hub("run", "yard.py", "-a", "null", "--set", "sandbox=process", "--json")
    assert "no container engine" not in named.err


def test_an_engine_that_is_named_wrongly_is_no_reason_for_weaker_walls(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "yard.py").write_text(YARD)
    assert "ssh://nowhere" in hub("run", "yard.py", "-a", "null", DOCKER_HOST="ssh://nowhere").refused()


async def test_a_table_of_images_that_is_not_right_is_no_reason_for_weaker_walls(hub: Hub, tmp_path: Path) -> None:
    try:
        async with open_provider("docker"):
            pass
    except ConfigError as error:
        pytest.skip(f"there are no containers here: {error}")
    (tmp_path / "yard.py").write_text(YARD)
    (tmp_path / "images.toml").write_text("[from")
    refusal = hub("run", "yard.py", "-a", "null", ROLLOUTHUB_IMAGES="images.toml").refused()
    assert "images.toml cannot be read" in refusal
