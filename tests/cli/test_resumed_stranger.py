"""A run of another user is not gone on with by the settings that it holds: they name code, programs and servers."""

import os
from pathlib import Path

import pytest

from .conftest import Hub

TRAP = '''
from pathlib import Path
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

Path("executed").touch()

class Trap(Environment[EnvironmentConfig]):
    """It is enough to import it."""

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt="Say something."), Secret())

    async def verify(self, submission):
        return Score(reward=1.0)
'''
PLAYED = ("-m", "mock/say", "-q")


@pytest.fixture
def theirs(hub: Hub, tmp_path: Path) -> Path:
    """A run whose environment is a file."""
    (tmp_path / "trap.py").write_text(TRAP)
    assert hub("run", "trap.py", *PLAYED, "-o", "theirs").code == 0
    (tmp_path / "executed").unlink()
    return tmp_path / "theirs"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("owned", [".", "resolved.json", "run.db"])
def test_nothing_that_another_users_run_names_is_executed_on_resume(hub: Hub, theirs: Path, owned: str) -> None:
    os.chown(theirs / owned, 65534, -1)
    said = " ".join(hub("run", "--resume", "-o", "theirs").refused().split())
    assert "the settings of the run in theirs are not read: user 65534 owns it, you are user 0" in said
    assert "hub run --config theirs/resolved.json --resume -o theirs" in said
    executed = theirs.with_name("executed")
    assert not executed.exists()
    assert hub("run", "--config", "theirs/resolved.json", "--resume", "-o", "theirs", "-q").code == 0
    assert executed.exists(), "what a user names is trusted"
    assert hub("run", "trap.py", *PLAYED, "--resume", "-o", "theirs").code == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_settings_behind_a_link_of_another_user_are_not_read(hub: Hub, theirs: Path) -> None:
    stored = theirs / "resolved.json"
    stored.rename(theirs.with_name("planted.json"))
    stored.symlink_to(theirs.with_name("planted.json"))
    os.chown(stored, 65534, -1, follow_symlinks=False)
    assert "are not read: user 65534 owns it" in " ".join(hub("run", "--resume", "-o", "theirs").refused().split())
    assert not theirs.with_name("executed").exists()


def test_a_run_of_ones_own_is_gone_on_with(hub: Hub, theirs: Path) -> None:
    assert hub("run", "--resume", "-o", "theirs", "-q").code == 0
    assert theirs.with_name("executed").exists()
