"""Servers of the hub's own: replaced when they die, given up when that does not help, gone when nobody needs them."""

import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from rollouthub import BadRow, Deadlines, Submission
from rollouthub.errors import ConfigError, HubError, ServerGone, TaskError
from rollouthub.hosting.open_host import open_served
from rollouthub.protocols import EnvironmentHost, TaskCard

FRAGILE = '''
import os
from pathlib import Path
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task, tool

HERE = Path(__file__).parent
VERSION = "1"

class Fragile(Environment[EnvironmentConfig]):
    """Breaks where a file says so, and tells its process."""

    version = VERSION

    @classmethod
    async def prepare(cls, config):
        if (HERE / "broken").exists():
            os._exit(9)

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(3):
            yield Task(Public(id=str(index), prompt="?"), Secret())

    @tool
    async def process(self) -> str:
        """The process this is in."""
        return str(os.getpid())

    async def close(self):
        with (HERE / "closed").open("a") as file:
            file.write(self.task.id)

    async def verify(self, submission):
        return Score(reward=1.0)
'''
PATIENT = Deadlines(setup=20, tool_call=20, verify=20, close=20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the environment is."""
    (tmp_path / "fragile.py").write_text(FRAGILE)
    return tmp_path


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[EnvironmentHost]:
    with anyio.fail_after(180):
        async with open_served(str(folder / "fragile.py"), {}) as host:
            yield host


async def first_task(host: EnvironmentHost) -> TaskCard:
    async for card in host.tasks("test", 0):
        assert not isinstance(card, BadRow)
        return card
    raise AssertionError


async def server_of(host: EnvironmentHost, card: TaskCard) -> int:
    """The process that an episode is played in."""
    async with host.open(card, seed=0, deadlines=PATIENT) as episode:
        result = await episode.seats["agent"].call_tool("process", {})
        return int(result.content[0].model_dump()["text"])


async def play_on(host: EnvironmentHost, card: TaskCard) -> None:
    """Episode after episode, whatever breaks, until nothing can be played any more."""
    while True:
        try:
            await server_of(host, card)
        except ServerGone:
            raise
        except TaskError:
            continue


async def test_a_killed_server_is_replaced_and_whoever_is_in_flight_told_at_once(folder: Path) -> None:
    async with served(folder) as host:
        card = await first_task(host)
        before = await server_of(host, card)
        async with host.open(card, seed=0, deadlines=PATIENT) as episode:
            os.kill(before, signal.SIGKILL)
            with anyio.fail_after(15), pytest.raises(TaskError, match="is gone"):
                await episode.conclude(Submission())
        assert await server_of(host, card) not in (before, os.getpid())


async def test_a_server_that_never_comes_back_is_given_up_with_the_reason(folder: Path) -> None:
    async with served(folder) as host:
        card = await first_task(host)
        victim = await server_of(host, card)
        (folder / "broken").touch()
        os.kill(victim, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(HubError) as caught:
                await play_on(host, card)
            assert "gone for good" in str(caught.value)
            assert "exit code 9" in str(caught.value)


async def test_an_environment_that_changed_while_it_ran_is_not_played_on(folder: Path) -> None:
    async with served(folder) as host:
        card = await first_task(host)
        victim = await server_of(host, card)
        (folder / "fragile.py").write_text(FRAGILE.replace('VERSION = "1"', 'VERSION = "2"'))
        os.kill(victim, signal.SIGKILL)
        with pytest.raises(ServerGone, match="it was changed while it ran"):
            await play_on(host, card)


async def test_the_first_start_that_fails_is_the_callers(folder: Path) -> None:
    (folder / "broken").touch()
    with pytest.raises(TaskError, match="exit code 9"):
        async with served(folder):
            raise AssertionError
    (folder / "fragile.py").write_text("import nothing_of_this_name")
    with pytest.raises(ConfigError, match="nothing_of_this_name"):
        async with served(folder):
            raise AssertionError


async def test_a_cancelled_run_closes_its_episodes_before_the_server_goes(folder: Path) -> None:
    async with anyio.create_task_group() as tasks:

        async def play() -> None:
            async with served(folder) as host, host.open(await first_task(host), seed=0, deadlines=PATIENT):
                tasks.cancel_scope.cancel()
                await anyio.sleep_forever()

        tasks.start_soon(play)
    assert (folder / "closed").read_text() == "0"
