"""The lives of served episodes: opened once, closed once, and never left over."""

import anyio
import pytest

from rollouthub.hosting.control_wire import OpenedEpisode
from tests.hosting.local.worlds import Workshop, World, world_of
from tests.hosting.server.desk import served

EPISODE = {"task": {"id": "one", "split": "test"}}


async def test_one_key_opens_one_episode_however_often_it_is_sent() -> None:
    async with served(World) as desk:
        opened: list[OpenedEpisode] = []

        async def open_it() -> None:
            opened.append(await desk.open(idempotency_key="k"))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(open_it)
        assert len({episode.id for episode in opened}) == 1
        assert (await desk.open()).id != opened[0].id


async def test_a_key_is_good_for_one_request() -> None:
    async with served(World) as desk:
        opened = await desk.open(idempotency_key="k")
        other = await desk.control("POST", "/v1/episodes", {**EPISODE, "seed": 1, "idempotency_key": "k"})
        assert (other.status, "another request" in other.problem[1]) == (409, True)
        await desk.control("DELETE", f"/v1/episodes/{opened.id}")
        late = await desk.control("POST", "/v1/episodes", {**EPISODE, "idempotency_key": "k"})
        assert (late.status, "is closed" in late.problem[1]) == (409, True)


async def test_a_failed_opening_may_be_tried_again_under_its_key() -> None:
    async with served(World, setup="raise") as desk:
        for _ in range(2):
            answer = await desk.control("POST", "/v1/episodes", {**EPISODE, "idempotency_key": "k"})
            assert answer.status == 500


async def test_an_episode_nobody_waits_for_any_more_is_closed() -> None:
    async with served(World, setup="hang") as desk:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(desk.open)
            while not desk.serving.episodes.opening:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        while desk.serving.episodes.opening:
            await anyio.lowlevel.checkpoint()


async def test_an_episode_over_its_age_is_closed() -> None:
    async with served(Workshop) as desk:
        opened = await desk.open(ttl_seconds=0.5)
        world = world_of(desk.episode(opened.id), Workshop)
        await desk.serving.episodes.find(opened.id).closed.wait()
        assert world.config.journal == ["setup", "close"]
        assert (await desk.control("GET", f"/v1/episodes/{opened.id}")).json["state"] == "closed"
        assert (await desk.call(opened.seats[0].url, "note", text="late")).status == 404
        metrics = (await desk.control("GET", "/metrics")).body.decode()
        assert "rollouthub_episodes_reaped_total 1.0\n" in metrics


async def test_the_servers_own_bound_on_age_wins() -> None:
    async with served(World, ttl_seconds=0.5) as desk:
        opened = await desk.open(ttl_seconds=3600)
        await desk.serving.episodes.find(opened.id).closed.wait()


async def test_leaving_closes_what_is_open() -> None:
    async with served(Workshop) as desk:
        worlds = [world_of(desk.episode((await desk.open()).id), Workshop) for _ in range(3)]
    # The worlds share their journal.
    assert worlds[0].config.journal == ["setup"] * 3 + ["close"] * 3


async def test_a_close_is_made_once_whoever_asks() -> None:
    async with served(Workshop) as desk:
        opened = await desk.open()
        world = world_of(desk.episode(opened.id), Workshop)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(desk.control, "DELETE", f"/v1/episodes/{opened.id}")
        assert world.config.journal == ["setup", "close"]


@pytest.mark.parametrize("kind", ["raise", "hang"])
async def test_a_rude_close_leaves_no_episode_behind(kind: str) -> None:
    async with served(World, close=kind) as desk:
        opened = await desk.open(deadlines={"close": 0.05})
        assert (await desk.control("DELETE", f"/v1/episodes/{opened.id}")).status == 500
        assert "rollouthub_episodes_open 0.0\n" in (await desk.control("GET", "/metrics")).body.decode()
