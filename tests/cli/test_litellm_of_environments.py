"""Environments that import litellm themselves: neither its words nor its requests for tables belong to a run."""

import socket
from pathlib import Path

import pytest

from rollouthub.processes import IMPORT_SETTINGS

from .conftest import Hub

ADVISED = """
import os

import litellm

from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

litellm.anthropic_beta_headers_manager.reload_beta_headers_config()
open("importers", "a").write(f"{os.getpid()} ")

class Advised(Environment[EnvironmentConfig]):
    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="one", prompt=f"{len(litellm.model_cost)} models"), Secret())

    async def verify(self, submission):
        return Score(reward=1.0)
"""


def test_an_environment_that_imports_litellm_says_nothing_and_asks_no_network(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in the hub's process, which reads what it serves, nor in the server's."""
    for name in IMPORT_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "advised.py").write_text(ADVISED)
    with socket.create_server(("127.0.0.1", 0)) as tables:
        url = f"http://127.0.0.1:{tables.getsockname()[1]}/"
        urls = {"LITELLM_MODEL_COST_MAP_URL": url, "LITELLM_ANTHROPIC_BETA_HEADERS_URL": url}
        done = hub("run", "advised.py", "-a", "null", "--json", "-q", "--served", **urls)
        tables.setblocking(False)
        with pytest.raises(BlockingIOError):
            tables.accept()
    assert (done.code, done.json["mean_reward"], done.err) == (0, 1.0, "")
    assert len(set((tmp_path / "importers").read_text().split())) == 2
