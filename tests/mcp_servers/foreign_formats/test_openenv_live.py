"""OpenEnv itself: an environment on its published release, held to its own client, and attacked with it."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UsageError
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub.processes import HUB
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home
from tests.foreign.openenv import Compared, compared

pytestmark = pytest.mark.live
CHECKOUT = "ROLLOUTHUB_OPENENV"
MODELS = """\
from openenv.core.env_server import Action, Observation


class SumAction(Action):
    answer: str


class SumObservation(Observation):
    question: str = ""
    correct_answer: int | None = None
    score: float = 0.0
"""
APP = """\
import random

from openenv.core.env_server import Environment, State, create_app

from ..models import SumAction, SumObservation


class Sums(Environment):
    def __init__(self):
        super().__init__()
        self._state = State(step_count=0)

    def reset(self, seed=None, most=9):
        drawn = random.Random(seed)
        self.first, self.second, self.tries = drawn.randint(0, most), drawn.randint(0, most), 0
        return self.seen(0.0, False)

    def seen(self, reward, done):
        right = self.first + self.second
        text = f"What is {self.first} + {self.second}?"
        return SumObservation(
            question=text, correct_answer=right, score=reward, reward=reward, done=done, metadata={"right": right}
        )

    def step(self, action, timeout_s=None, **kwargs):
        self.tries += 1
        right = action.answer.strip() == str(self.first + self.second)
        return self.seen(1.0 if right else -0.5, right or self.tries == 3)

    @property
    def state(self):
        return self._state


app = create_app(Sums, SumAction, SumObservation, env_name="sums_env")
"""
ATTACK = """\
import sys
from openenv.core import GenericEnvClient

client = GenericEnvClient(base_url=sys.argv[1])
client = client.sync() if hasattr(client, "sync") else client
try:
    client.connect()
    print("connected", client.reset(seed=0))
except Exception as error:
    print("refused", type(error).__name__)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of environments: one of ours on OpenEnv's own classes, which shows all that it should not."""
    folder = tmp_path_factory.mktemp("checkout") / "sums_env"
    (folder / "server").mkdir(parents=True)
    for name, text in {"__init__.py": "", "models.py": MODELS, "server/__init__.py": "", "server/app.py": APP}.items():
        (folder / name).write_text(text)
    return folder.parent


@pytest.fixture(scope="module")
def package(checkout: Path) -> Path:
    """Its import."""
    try:
        source = ImportSource.of(str(checkout))
        (file,) = find_importer("openenv").write(source, ["sums_env"], {}, checkout.parent / "out" / "sums", Identity())
    except (UsageError, ConfigError) as error:
        if "index" in str(error) or "reached" in str(error):
            pytest.skip(f"OpenEnv cannot be had here: {error}")
        raise
    return file


def test_the_rewards_are_those_of_openenvs_own_client_and_server(package: Path, checkout: Path) -> None:
    played = compared(ImportSource.of(str(checkout)), "sums_env", Compared(checkout, seeds=3, most=5))
    assert (played.why, played.episodes, played.equal) == ("", 3, 3)
    record = json.loads((package.parent / "data" / "openenv.json").read_text())
    assert (record["shown"], record["line"]) == (["question"], "ws")
    assert {"correct_answer", "score", "reward", "metadata"} <= set(record["withheld"])


def test_openenvs_own_client_gains_nothing_at_the_address_that_an_agent_has(package: Path) -> None:
    python = foreign_home().python(ForeignLock.read(package.parent / "data" / LOCK_FILE).dependencies)
    command = [*HUB, "serve", "env", str(package), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as served:
        try:
            assert served.stdout is not None
            address = next(
                word for line in served.stdout for word in line.split() if word.startswith("http://127.0.0.1")
            )
            base = "/".join(address.split("/")[:3])
            for url in (base, f"{base}/e/none"):
                attack = [str(python), "-P", "-c", ATTACK, url]
                done = subprocess.run(attack, capture_output=True, text=True, check=True, timeout=120)
                assert done.stdout.startswith("refused"), done.stdout
        finally:
            served.terminate()


@pytest.mark.parametrize("name", ["maze_env", "grid_world_env", "connect4_env"])
def test_environments_of_a_checkout_play_as_with_their_own_client(name: str) -> None:
    if CHECKOUT not in os.environ:
        pytest.skip(f"needs a checkout of OpenEnv ({CHECKOUT})")
    folder = Path(os.environ[CHECKOUT])
    played = compared(ImportSource.of(str(folder)), name, Compared(folder, seeds=2, most=20))
    assert (played.why, played.equal) == ("", played.episodes)
