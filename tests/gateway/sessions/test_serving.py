"""A serving hub can be watched, drained and left, also with environments in processes of their own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from rollouthub import Outcome
from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError
from rollouthub.gateway.gateway_client import HubClient
from rollouthub.gateway.sessions.open_service import external_agents_plan, open_service
from rollouthub.gateway.sessions.serve_sessions import HubOrder, HubReady, serve_hub
from rollouthub.gateway.sessions.service_rules import GatewayPlace
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from rollouthub.live.control.live_client import find_running, knock
from rollouthub.models.credentials import Credentials
from tests.gateway.sessions.front import TALLY, call, front

TOKEN = "control-canary-5e71ce"


class Told:
    """Whom a hub tells that it is up."""

    def __init__(self) -> None:
        self.ready: HubReady | None = None
        self.up, self.leave, self.left = anyio.Event(), anyio.Event(), anyio.Event()

    def hear(self, ready: HubReady) -> None:
        """It is up."""
        self.ready = ready
        self.up.set()


@asynccontextmanager
async def serving(directory: Path, **order: Any) -> AsyncGenerator[tuple[Told, HubClient]]:
    """A hub that serves, and a client of its control plane."""
    told = Told()
    plan = external_agents_plan(RunRequest(environments=(TALLY,)))
    made = HubOrder(plan, directory, Credentials(), TOKEN, f"unix:{directory}.sock", **order)

    async def serve() -> None:
        await serve_hub(made, told.hear, told.leave.wait, lambda: None)
        told.left.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            await told.up.wait()
            assert told.ready is not None
            async with HubClient(told.ready.control_url, TOKEN) as client:
                yield told, client
            told.leave.set()


@pytest.fixture
def door(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A folder for the sockets of live control."""
    folder = tmp_path_factory.mktemp("live")
    folder.chmod(0o700)
    return {"XDG_RUNTIME_DIR": str(folder)}


async def own_door(environ: dict[str, str], run: Path) -> Path:
    """The socket of the hub that keeps this run, once it is there: others of this user may play, too."""
    while True:
        running, _ = await find_running(environ)
        for hub in running:
            if hub.listing.run.directory == str(run):
                return hub.path


async def test_live_control_drains_a_hub_and_then_it_leaves(tmp_path: Path, door: dict[str, str]) -> None:
    async with serving(tmp_path / "run", door=door) as (told, client):
        ticket = await client.open(EpisodeRequest())
        async with knock(await own_door(door, tmp_path / "run")) as live:
            assert [each.rollout_id for each in (await live.list()).rollouts] == [ticket.id]
            await live.interrupt(None)
        with pytest.raises(Exception, match="leave"):
            await client.open(EpisodeRequest())
        assert not told.left.is_set()
        report = await client.verify(ticket.id)
        assert report.outcome is Outcome.SCORED
        await told.left.wait()


async def test_the_client_closes_what_nobody_had_verified(tmp_path: Path) -> None:
    async with serving(tmp_path / "run") as (_, client):
        async with client.episode(EpisodeRequest(task="test/1")) as ticket:
            assert [each.id for each in await client.episodes()] == [ticket.id]
        assert (await client.report(ticket.id)).outcome is Outcome.CANCELLED
        assert [card.name for card in await client.environments()] == ["tally"]
        cards = [card async for card in _first(client, 3)]
        assert len(cards) == 3


async def _first(client: HubClient, count: int) -> AsyncGenerator[object]:
    async for card in client.tasks("tally"):
        yield card
        count -= 1
        if not count:
            return


async def test_who_watches_an_episode_is_told_its_end_when_the_hub_leaves(tmp_path: Path) -> None:
    async with serving(tmp_path / "run") as (told, client):
        ticket = await client.open(EpisodeRequest())
        connector = aiohttp.UnixConnector(f"{tmp_path / 'run'}.sock")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            aiohttp.ClientSession("http://control", connector=connector, headers=headers) as http,
            http.get(f"/v1/episodes/{ticket.id}/events") as events,
        ):
            assert await events.content.readline()
            told.leave.set()
            rest = await events.content.read()
    assert b"event: ended" in rest
    assert b'"cancelled"' in rest


async def test_an_address_that_no_agent_can_reach_is_refused(tmp_path: Path) -> None:
    plan = external_agents_plan(RunRequest(environments=(TALLY,)))
    with pytest.raises(ConfigError, match="--public-url"):
        async with open_service(plan, tmp_path / "run", Credentials(), place=GatewayPlace("0.0.0.0")):
            pass


@pytest.mark.soak
async def test_an_environment_in_its_own_process_is_served_like_a_hosted_one(tmp_path: Path) -> None:
    async with front(tmp_path / "run", served=True) as hub:
        session = await hub.open(EpisodeRequest())
        for _ in range(2):
            await call(session.address.agent_url, "add")
        await call(session.address.agent_url, "submit", answer="two")
        assert (await session.over()).reward == 1.0
