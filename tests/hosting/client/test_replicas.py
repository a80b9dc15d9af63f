"""Several servers of one environment: the least busy is asked, and what breaks one breaks its own episodes alone."""

import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from rollouthub import Deadlines, Submission
from rollouthub.errors import ConfigError, NotOffered, ServerGone, TaskError
from rollouthub.hosting.client.attached import attach
from rollouthub.hosting.client.remote_host import RemoteHost
from rollouthub.hosting.client.served_process import Probing, ServedProcess, new_order
from rollouthub.hosting.client.server_replicas import ReplicatedHost
from rollouthub.hosting.launch import addresses
from rollouthub.hosting.open_host import open_served
from rollouthub.protocols import EnvironmentHost, Episode, TaskCard
from rollouthub.task import BadRow
from tests.hosting.client.stub import INFO, TOKEN, Stub, stub_server

COUNTING = '''
import os
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task, tool

class Counting(Environment[EnvironmentConfig]):
    """Tells its process."""

    @classmethod
    def tasks(cls, config, split, seed):
        yield Task(Public(id="0", prompt="?"), Secret())

    @tool
    async def process(self) -> str:
        """The process this is in."""
        return str(os.getpid())

    async def verify(self, submission):
        return Score(reward=1.0)
'''
PATIENT = Deadlines(setup=20, tool_call=20, verify=20, close=20)


async def only_task(host: EnvironmentHost) -> TaskCard:
    async for card in host.tasks("test", 0):
        assert not isinstance(card, BadRow)
        return card
    raise AssertionError


async def process_of(episode: Episode) -> int:
    """The process an episode is played in."""
    result = await episode.seats["agent"].call_tool("process", {})
    return int(result.content[0].model_dump()["text"])


@asynccontextmanager
async def two_stubs() -> AsyncGenerator[tuple[Stub, Stub, EnvironmentHost]]:
    """Two servers of somebody else's, as one environment."""
    async with (
        stub_server() as one,
        stub_server() as other,
        attach([one.url, other.url], TOKEN, patience_seconds=0.3) as host,
    ):
        yield one, other, host


async def test_an_episode_goes_to_the_least_busy_server() -> None:
    async with two_stubs() as (one, other, host), AsyncExitStack() as stack:
        card = await only_task(host)
        for _ in range(4):
            await stack.enter_async_context(host.open(card, seed=0, deadlines=PATIENT))
        assert (one.seen.count("open"), other.seen.count("open")) == (2, 2)
        await stack.aclose()
        assert isinstance(host, ReplicatedHost)
        assert [replica.busy for replica in host.replicas] == [0, 0]
        assert (await host.score(card, Submission(), seed=0, deadlines=PATIENT)).reward == 0.5


async def test_servers_of_different_versions_are_no_replicas() -> None:
    async with stub_server() as one, stub_server() as other:
        other.info = {**INFO, "digest": "sha256:1"}
        with pytest.raises(ConfigError, match=r"do not serve the same environment \(digest: 'sha256:0' and 'sha256:1'"):
            async with attach([one.url, other.url], TOKEN):
                raise AssertionError


async def test_a_lost_server_costs_its_own_episodes_alone_and_only_the_last_ends_the_play() -> None:
    async with two_stubs() as (one, other, host):
        card = await only_task(host)
        async with (
            host.open(card, seed=0, deadlines=PATIENT) as lost,
            host.open(card, seed=0, deadlines=PATIENT) as kept,
        ):
            await one.leave()
            with pytest.raises(TaskError) as caught:
                await lost.conclude(Submission())
            assert caught.value.retryable
            score = await kept.conclude(Submission())
            assert score is not None
        for _ in range(3):
            async with host.open(card, seed=0, deadlines=PATIENT):
                pass
        assert await only_task(host)
        await other.leave()
        with pytest.raises(TaskError):
            async with host.open(card, seed=0, deadlines=PATIENT):
                raise AssertionError
        with anyio.fail_after(20), pytest.raises(ServerGone, match="all 2 servers are gone"):
            async with host.open(card, seed=0, deadlines=PATIENT):
                raise AssertionError
        with anyio.fail_after(20), pytest.raises(Exception, match="gone") as told:
            await host.score(card, Submission(), seed=0, deadlines=PATIENT)
        assert not isinstance(told.value, NotOffered)


def test_addresses_of_one_environment_stand_with_commas_between_them() -> None:
    assert addresses("http://a:1,https://b:2,unix:/tmp/a,b.sock") == ["http://a:1", "https://b:2", "unix:/tmp/a,b.sock"]


async def test_a_killed_server_is_replaced_while_the_other_plays_on(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    with anyio.fail_after(180):
        async with open_served(str(tmp_path / "counting.py"), {}, servers=2) as host, AsyncExitStack() as stack:
            card = await only_task(host)
            episodes = [await stack.enter_async_context(host.open(card, seed=0, deadlines=PATIENT)) for _ in range(6)]
            processes = [await process_of(episode) for episode in episodes]
            assert sorted(Counter(processes).values()) == [3, 3]
            victim = processes[0]
            os.kill(victim, 0)  # it lives
            os.kill(victim, signal.SIGKILL)
            for episode, process in zip(episodes, processes, strict=True):
                if process == victim:
                    with pytest.raises(TaskError, match=r"is gone|cannot be reached") as caught:
                        await episode.conclude(Submission())
                    assert caught.value.retryable
                else:
                    assert await episode.conclude(Submission())
            assert isinstance(host, ReplicatedHost)
            while not all(replica.server.is_up for replica in host.replicas):
                async with host.open(card, seed=0, deadlines=PATIENT) as episode:
                    assert await process_of(episode) != victim
            async with host.open(card, seed=0, deadlines=PATIENT) as a, host.open(card, seed=0, deadlines=PATIENT) as b:
                fresh = {await process_of(a), await process_of(b)} - {*processes}
                assert len(fresh) == 1


@pytest.mark.soak
async def test_a_server_that_stands_still_is_noticed_and_replaced_without_a_complaint(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    probing = Probing(every_seconds=0.1, answer_seconds=0.3, silent_seconds=0.5)
    supervisor = ServedProcess(new_order(str(tmp_path / "counting.py"), {}, {}), probing)
    with anyio.fail_after(180):
        async with anyio.create_task_group() as tasks:
            host = RemoteHost(await tasks.start(supervisor.run), supervisor)
            card = await only_task(host)
            async with host.open(card, seed=0, deadlines=PATIENT) as episode:
                victim = await process_of(episode)
            os.kill(victim, signal.SIGSTOP)
            while supervisor.is_up:  # noqa: ASYNC110  # nobody tells, which is the point
                await anyio.sleep(0.02)
            while not supervisor.is_up:  # noqa: ASYNC110
                await anyio.sleep(0.02)
            async with host.open(card, seed=0, deadlines=PATIENT) as episode:
                assert await process_of(episode) != victim
            supervisor.stop()
