"""ORS itself: a server on its published release, held to ORS's own client."""

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Deadlines, Stop, Submission
from rollouthub.errors import ConfigError, UsageError
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import Identity, ImportSource, find_importer
from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home

pytestmark = pytest.mark.live
SERVER = """\
import sys

from ors import Environment, Server, Split, TextBlock, ToolOutput, tool
from pydantic import BaseModel


class Said(BaseModel):
    answer: str


class Sums(Environment):
    @classmethod
    def list_splits(cls):
        return [Split(name="test", type="test")]

    @classmethod
    def list_tasks(cls, split):
        return [{"question": f"What is {number} + 2?", "answer": str(number + 2)} for number in range(4)]

    def get_prompt(self):
        return [TextBlock(text=self.task_spec["question"])]

    @tool
    def hint(self) -> ToolOutput:
        told = {"answer": self.task_spec["answer"]}
        return ToolOutput(blocks=[TextBlock(text="?" * 9000)], reward=-0.25, metadata=told)

    @tool
    def say(self, said: Said) -> ToolOutput:
        right = said.answer == self.task_spec["answer"]
        return ToolOutput(blocks=[TextBlock(text="heard")], reward=float(right), finished=True)


if __name__ == "__main__":
    Server([Sums]).run(port=int(sys.argv[1]) if len(sys.argv) > 1 else 8080)
"""
LOOP = """\
import json, socket, subprocess, sys, time
from ors.client import ORS

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
server = subprocess.Popen([sys.executable, sys.argv[1], str(port)], **quiet)
try:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    client = ORS(base_url=f"http://127.0.0.1:{port}")
    environment = client.environment("sums")
    earned = []
    for task, calls in zip(environment.list_tasks(split="test"), json.loads(sys.argv[2])):
        with environment.session(task=task) as session:
            rewards = [session.call_tool(name, given).reward for name, given in calls]
        earned.append(sum(rewards))
    print(json.dumps(earned))
finally:
    server.kill()
"""
CALLS: list[Any] = [
    [["say", {"answer": "2"}]],
    [["hint", {}], ["say", {"answer": "3"}]],
    [["hint", {}], ["hint", {}], ["say", {"answer": "3"}]],
    [["hint", {}]],
]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The import of a server on ORS's own classes."""
    folder = tmp_path_factory.mktemp("ors")
    (folder / "source").mkdir()
    (folder / "source" / "server.py").write_text(SERVER)
    try:
        source = ImportSource.of(str(folder / "source"))
        (file,) = find_importer("ors").write(source, ["sums"], {}, folder / "sums", Identity())
    except (UsageError, ConfigError) as error:
        if "index" in str(error) or "reached" in str(error):
            pytest.skip(f"ORS cannot be had here: {error}")
        raise
    return file


async def test_the_rewards_are_those_of_ors_s_own_client_and_nothing_else_is_shown(package: Path) -> None:
    data = package.parent / "data"
    python = await anyio.to_thread.run_sync(
        lambda: foreign_home().python(ForeignLock.read(data / LOCK_FILE).dependencies)
    )
    command = [str(python), "-P", "-c", LOOP, str(data / "server" / "source" / "server.py"), json.dumps(CALLS)]
    own = json.loads((await anyio.run_process(command, stderr=subprocess.DEVNULL)).stdout)
    assert own == [1.0, 0.75, -0.5, -0.25]
    found, earned, seen = find_environment(str(package)), list[float](), list[str]()
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        for number, calls in enumerate(CALLS):
            card = await host.find_task("test", f"sums/test/{number}", 0)
            async with host.open(card, seed=0, deadlines=Deadlines()) as episode:
                seat = episode.seats["agent"]
                assert (await seat.call_tool("create", {"env_name": "sums", "split": "test", "index": 0})).is_error
                seen += [str(await seat.call_tool(name, given)) for name, given in calls]
                score = await episode.conclude(Submission(stop=Stop.FINISHED))
                assert score is not None, episode.faults
                earned.append(score.reward)
    assert earned == own
    assert not any("reward" in text or "'answer'" in text for text in seen)
