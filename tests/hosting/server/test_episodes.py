"""The lives of served episodes: opened once, closed once, and never left over."""

import anyio
import pytest

from rollouthub.hosting.control_wire import OpenedEpisode
from tests.hosting.local.worlds import Workshop, World, world_of
from tests.hosting.server.wire_client import served

EPISODE = {"task": {"id": "one", "split": "test"}}


async def test_one_key_opens_one_episode_however_often_it_is_sent() -> None:
    async with served(World) as wire:
        opened: list[OpenedEpisode] = []

        async def open_it() -> None:
            opened.append(await wire.open(idempotency_key="k"))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(open_it)
        assert len({episode.id for episode in opened}) == 1
        assert (await wire.open()).id != opened[0].id


async def test_a_key_is_good_for_one_request() -> None:
    async with served(World) as wire:
        opened = await wire.open(idempotency_key="k")
        other = await wire.control("POST", "/v1/episodes", {**EPISODE, "seed": 1, "idempotency_key": "k"})
        assert (other.status, "another request" in other.problem[1]) == (409, True)
        await wire.control("DELETE", f"/v1/episodes/{opened.id}")
        late = await wire.control("POST", "/v1/episodes", {**EPISODE, "idempotency_key": "k"})
        assert (late.status, "is closed" in late.problem[1]) == (409, True)


async def test_a_failed_opening_may_be_tried_again_under_its_key() -> None:
    async with served(World, setup="raise") as wire:
        for _ in range(2):
            answer = await wire.control("POST", "/v1/episodes", {**EPISODE, "idempotency_key": "k"})
            assert answer.status == 500


async def test_an_episode_nobody_waits_for_any_more_is_closed() -> None:
    async with served(World, setup="hang") as wire:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wire.open)
            while not wire.serving.episodes.opening:
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        while wire.serving.episodes.opening:
            await anyio.lowlevel.checkpoint()


async def test_an_episode_over_its_age_is_closed() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open(ttl_seconds=0.5)
        world = world_of(wire.episode(opened.id), Workshop)
        await wire.serving.episodes.find(opened.id).closed.wait()
        assert world.config.journal == ["setup", "close"]
        assert (await wire.control("GET", f"/v1/episodes/{opened.id}")).json["state"] == "closed"
        assert (await wire.call(opened.seats[0].url, "note", text="late")).status == 404
        metrics = (await wire.control("GET", "/metrics")).body.decode()
        assert "rollouthub_episodes_reaped_total 1.0\n" in metrics


async def test_the_servers_own_bound_on_age_wins() -> None:
    async with served(World, ttl_seconds=0.5) as wire:
        opened = await wire.open(ttl_seconds=3600)
        await wire.serving.episodes.find(opened.id).closed.wait()


async def test_leaving_closes_what_is_open() -> None:
    async with served(Workshop) as wire:
        worlds = [world_of(wire.episode((await wire.open()).id), Workshop) for _ in range(3)]
    # The worlds share their journal.
    assert worlds[0].config.journal == ["setup"] * 3 + ["close"] * 3


async def test_a_close_is_made_once_whoever_asks() -> None:
    async with served(Workshop) as wire:
        opened = await wire.open()
        world = world_of(wire.episode(opened.id), Workshop)
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(wire.control, "DELETE", f"/v1/episodes/{opened.id}")
        assert world.config.journal == ["setup", "close"]


@pytest.mark.parametrize("kind", ["raise", "hang"])
async def test_a_rude_close_leaves_no_episode_behind(kind: str) -> None:
    async with served(World, close=kind) as wire:
        opened = await wire.open(deadlines={"close": 0.05})
        assert (await wire.control("DELETE", f"/v1/episodes/{opened.id}")).status == 500
        assert "rollouthub_episodes_open 0.0\n" in (await wire.control("GET", "/metrics")).body.decode()
