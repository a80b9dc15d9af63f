"""A pool of opponents that grew while a supply played is as large when the supply is resumed."""

import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

import rollouthub
from rollouthub import RolloutGroup, Supply, UsageError
from rollouthub.models.config import ModelConfig
from rollouthub.trainers.stream.ledger import SUPPLY
from tests.models.servers import Script, say

DUEL = str(Path(__file__).with_name("duel.py"))


class Servers:
    """The policy's server, and those of its older versions."""

    def __init__(self, *policy: Any) -> None:
        self.policy = Script(*(policy or (say("new"),)))
        self.old = [Script(say(f"v{number}")) for number in (1, 2, 3, 4)]
        self.urls: list[str] = []

    @asynccontextmanager
    async def up(self) -> AsyncGenerator["Servers"]:
        """Serve them all."""
        async with AsyncExitStack() as stack:
            self.urls = [await stack.enter_async_context(each.serve()) for each in (self.policy, *self.old)]
            yield self

    def version(self, number: int) -> ModelConfig:
        """An older version of the policy."""
        return ModelConfig(name=f"hosted_vllm/v{number}", base_url=self.urls[number])

    @asynccontextmanager
    async def supply(self, folder: Path, **more: Any) -> AsyncGenerator[Supply[RolloutGroup]]:
        """A supply whose right seat is the first version's, and of who is added."""
        asked: dict[str, Any] = {
            "environments": (DUEL,),
            "model": "hosted_vllm/policy",
            "base_url": (self.urls[0],),
            "seats": {"right": {"pool": [{"model": self.version(1).model_dump(mode="json"), "version": 1}]}},
            "directory": folder / "run",
            "repeats": 2,
            "epochs": 6,
            "seed": 1,
            "batch": 1,
        }
        with anyio.fail_after(60):
            async with rollouthub.stream_rollouts(groups=True, **asked | more) as supply:
                yield supply


def met(groups: list[RolloutGroup]) -> dict[str, tuple[str | None, int | None]]:
    """Group → its one opponent."""
    found: dict[str, tuple[str | None, int | None]] = {}
    for group in groups:
        (found[group.group_id],) = {(each.seats["right"].model, each.seats["right"].version) for each in group.rollouts}
    return found


async def test_opponents_that_were_added_are_met_as_if_the_supply_had_never_ended(tmp_path: Path) -> None:
    async with Servers().up() as servers:
        async with servers.supply(tmp_path / "whole") as supply:
            await supply.pause()  # so that no group is begun before they are there
            await supply.add_opponent("right", servers.version(2), version=2)
            await supply.add_opponent("right", servers.version(3))
            await supply.resume()
            whole = [group async for group in supply]
        async with servers.supply(tmp_path / "cut") as supply:
            await supply.pause()  # so that no group is begun before they are there
            await supply.add_opponent("right", servers.version(2), version=2)
            await supply.add_opponent("right", servers.version(3))
            await supply.resume()
            groups = [await anext(supply)]
        async with servers.supply(tmp_path / "cut", resume=True) as supply:
            groups += [group async for group in supply]
    assert met(groups) == met(whole)
    assert set(met(groups).values()) == {("hosted_vllm/v1", 1), ("hosted_vllm/v2", 2), ("hosted_vllm/v3", None)}


async def test_a_group_that_was_begun_before_its_pool_grew_meets_the_same_opponent_to_its_end(tmp_path: Path) -> None:
    released = anyio.Event()

    async def held(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response(status=500)

    servers = Servers(say("new"), say("new"), held)
    async with servers.up():
        async with servers.supply(tmp_path, repeats=3, concurrency=2, epochs=1) as supply:
            while supply.stats.rollouts < 2:
                await anyio.wait_all_tasks_blocked()
            for number in (2, 3, 4):
                await supply.add_opponent("right", servers.version(number), version=number)
        released.set()
        servers.policy = Script(say("new"))
        again: dict[str, Any] = {"repeats": 3, "epochs": 1, "resume": True}
        async with servers.policy.serve() as url, servers.supply(tmp_path, base_url=(url,), **again) as supply:
            groups = [group async for group in supply]
    assert [len(group.rollouts) for group in groups] == [3, 3]
    begun = groups[0].group_id
    assert met(groups)[begun] == ("hosted_vllm/v1", 1)


@pytest.mark.parametrize(("back_to", "knows"), [(None, True), (3, True), (2, False)])
async def test_going_back_to_a_checkpoint_forgets_who_was_added_after_it(
    back_to: int | None, knows: bool, tmp_path: Path
) -> None:
    async with Servers().up() as servers:
        async with servers.supply(tmp_path, epochs=1) as supply:
            await supply.publish_weights(3)
            await supply.add_opponent("right", servers.version(2), version=2)
        async with servers.supply(tmp_path, resume=True, policy_version=back_to) as supply:
            groups = [group async for group in supply]
    assert (("hosted_vllm/v2", 2) in met(groups).values()) is knows


async def test_an_opponent_that_is_added_again_is_the_same_one_at_another_address(tmp_path: Path) -> None:
    async with Servers().up() as servers:
        async with servers.supply(tmp_path, epochs=1) as supply:
            await supply.add_opponent("right", servers.version(2), version=2)
            moved = servers.version(2).model_copy(update={"base_url": servers.urls[4]})
            await supply.add_opponent("right", moved, version=2)
        asked = len(servers.old[1].asked)
        with closing(sqlite3.connect(tmp_path / "run" / SUPPLY)) as ledger:
            assert ledger.execute("SELECT seat, name, version FROM opponents").fetchall() == [
                ("right", "hosted_vllm/v2", 2)
            ]
        async with servers.supply(tmp_path, resume=True) as supply:
            groups = [group async for group in supply]
        assert ("hosted_vllm/v2", 2) in met(groups).values()
        assert len(servers.old[1].asked) == asked, "nobody asks at the old address"


async def test_a_supply_whose_opponent_is_gone_is_not_resumed_without_it(tmp_path: Path) -> None:
    async with Servers().up() as servers:
        async with servers.old[1].serve() as gone, servers.supply(tmp_path) as supply:
            await supply.add_opponent("right", ModelConfig(name="hosted_vllm/v2", base_url=gone), version=2)
            await anext(supply)
        with pytest.raises(UsageError, match=r"'hosted_vllm/v2', which was added .* any more; serve it again"):
            async with servers.supply(tmp_path, resume=True):
                pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_another_users_supply_sends_no_key_to_an_opponent(tmp_path: Path) -> None:
    async with Servers().up() as servers:
        async with servers.supply(tmp_path) as supply:
            await supply.add_opponent("right", servers.version(2), version=2)
            await anext(supply)
        os.chown(tmp_path / "run" / SUPPLY, 65534, -1)
        asked = len(servers.old[1].asked)
        with pytest.raises(UsageError, match="user 65534, who owns it, chose the server that would be sent your key"):
            async with servers.supply(tmp_path, resume=True):
                pass
        assert len(servers.old[1].asked) == asked
