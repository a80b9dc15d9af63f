"""Steering servers of vLLM's kind: the mock server here, and a real one where there is one."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

import rollouthub
from rollouthub import Outcome, RolloutGroup, Supply, SupplyError
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer, listening
from rollouthub.store import open_run
from rollouthub.trainers.stream import LoraAdapters, VllmControl
from rollouthub.trainers.stream.generation_control import InFlight

from .conftest import WORLD, settings


@asynccontextmanager
async def serving(
    name: str = "mock/say?text=done", count: int = 1
) -> AsyncGenerator[tuple[list[str], list[ModelServer]]]:
    """Mock servers of one model; their base URLs."""
    servers = [ModelServer(MockModel(ModelConfig(name=name)), ["served"]) for _ in range(count)]
    async with anyio.create_task_group() as tasks:
        urls = list[str]()
        for server in servers:
            urls.append(await tasks.start(_listen, server))
        yield urls, servers
        tasks.cancel_scope.cancel()


async def _listen(server: ModelServer, *, task_status: anyio.abc.TaskStatus[str]) -> None:
    async with listening(server, "127.0.0.1", 0) as port:
        task_status.started(f"http://127.0.0.1:{port}/v1")
        await anyio.sleep_forever()


@asynccontextmanager
async def supplied(folder: Path, urls: list[str], **more: Any) -> AsyncGenerator[Supply[RolloutGroup]]:
    """A supply from these servers."""
    more = {"model": "hosted_vllm/served", "base_url": tuple(urls), "control": VllmControl(urls)} | more
    with anyio.fail_after(60):
        async with rollouthub.stream_rollouts(groups=True, **settings(folder, **more)) as supply:
            yield supply


@pytest.mark.parametrize("in_flight", ["finish", "abort", "keep"])
async def test_every_replica_is_paused_told_the_version_and_resumed(tmp_path: Path, in_flight: InFlight) -> None:
    async with serving("mock/say?text=done&latency=0.01..0.05", count=2) as (urls, servers):
        control = VllmControl(urls)
        async with supplied(tmp_path, urls) as supply:
            await supply.batch()

            async def update() -> None:
                assert await control.are_paused() == [True, True]
                await control.reload_weights()

            await supply.publish_weights(3, update, in_flight=in_flight)
            assert await control.are_paused() == [False, False]
            assert await control.versions() == ["3", "3"]
            groups = [group async for group in supply]
        assert [server.control.calls for server in servers if server.control] == [["reload_weights"]] * 2
    assert {group.policy_version_max for group in groups} >= {3}
    with open_run(tmp_path / "run") as run:
        assert set(run.outcomes()) == {Outcome.SCORED}


async def test_a_call_that_the_server_broke_off_is_asked_again(tmp_path: Path) -> None:
    async with serving("mock/say?text=done&latency=0.3") as (urls, _):
        control = VllmControl(urls)
        async with supplied(tmp_path, urls, control=None, world={"size": 1}) as supply:
            while not supply.stats.in_flight:
                await anyio.wait_all_tasks_blocked()
            await control.pause("abort")  # behind the supply's back, as where others play
            await control.resume()
            group = await anext(supply)
    assert len(group.rollouts) == 4


async def test_a_server_without_the_routes_is_an_error_that_says_what_to_do() -> None:
    async with serving() as (urls, _):
        with pytest.raises(SupplyError, match="VLLM_SERVER_DEV_MODE=1"):
            await VllmControl(urls).sleep()


async def test_a_server_that_is_gone_is_named_and_the_others_are_told() -> None:
    async with serving() as (urls, _):
        both = VllmControl([*urls, "http://127.0.0.1:9/v1"], timeout_seconds=20)
        with pytest.raises(SupplyError, match=r"127\.0\.0\.1:9/pause"):
            await both.pause("finish")
        assert await VllmControl(urls).are_paused() == [True]


async def test_a_control_that_fails_keeps_the_version_and_holds_generation(tmp_path: Path) -> None:
    async with serving() as (urls, _):
        control = VllmControl([*urls, "http://127.0.0.1:9/v1"], timeout_seconds=20)
        async with supplied(tmp_path, urls, control=control) as supply:
            with pytest.raises(SupplyError):
                await supply.publish_weights()
            assert (supply.is_paused, supply.policy_version) == (True, 0)


@pytest.fixture
def vllm_url() -> str:
    """A vLLM server's base URL, started with VLLM_SERVER_DEV_MODE=1; skipped aloud where there is none."""
    url = os.environ.get("ROLLOUTHUB_VLLM_DEV_URL")
    if not url:
        pytest.skip("ROLLOUTHUB_VLLM_DEV_URL names no vLLM server in development mode")
    return url


@pytest.mark.live
@pytest.mark.parametrize("in_flight", ["finish", "abort", "keep"])
async def test_a_real_server_exchanges_its_weights_in_mid_run(
    tmp_path: Path, vllm_url: str, in_flight: InFlight
) -> None:
    control = VllmControl(vllm_url)
    with anyio.fail_after(120):
        async with rollouthub.stream_rollouts(
            environments=(str(WORLD),),
            model="hosted_vllm/tiny",
            base_url=(vllm_url,),
            sampling={"max_tokens": 200, "temperature": 1.0, "extra": {"ignore_eos": True}},
            repeats=4,
            batch=2,
            concurrency=12,
            max_staleness=4,
            epochs=1,
            set={"size": 10},
            directory=tmp_path / "run",
            control=control,
            credentials=Credentials({}),
        ) as supply:
            groups = list[RolloutGroup]()
            while batch := await supply.batch():
                groups += batch
                version = await supply.publish_weights(update=control.reload_weights, in_flight=in_flight)
                assert await control.versions() == [str(version)]
                assert await control.are_paused() == [False]
            aborted = supply.stats.aborted_calls
    assert len(groups) == 10
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert all(rollout.trainable for rollout in rollouts)
    assert len({rollout.policy_version_min for rollout in rollouts}) > 1
    spanning = [each for each in rollouts if each.policy_version_min != each.policy_version_max]
    assert bool(spanning) == (in_flight == "keep")
    assert bool(aborted) == (in_flight == "abort")


@pytest.mark.live
async def test_a_real_servers_episodes_are_discarded_and_stragglers_broken_off(tmp_path: Path, vllm_url: str) -> None:
    control = VllmControl(vllm_url)
    with anyio.fail_after(120):
        async with rollouthub.stream_rollouts(
            environments=(str(WORLD),),
            model="hosted_vllm/tiny",
            base_url=(vllm_url,),
            sampling={"max_tokens": 200, "temperature": 1.0},
            repeats=3,
            redundancy=1,
            batch=2,
            concurrency=12,
            max_staleness=4,
            stale="wait",
            set={"size": 10},
            directory=tmp_path / "run",
            control=control,
            credentials=Credentials({}),
        ) as supply:
            groups = list[RolloutGroup]()
            while batch := await supply.batch():
                groups += batch
                await supply.publish_weights(update=control.reload_weights, episodes="discard", in_flight="abort")
            stats = supply.stats
    assert [len(group.rollouts) for group in groups] == [3] * 10
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert all(rollout.trainable for rollout in rollouts)
    assert all(rollout.policy_version_min == rollout.policy_version_max for rollout in rollouts)
    assert (stats.stale, stats.short) == (0, 0)
    assert stats.discarded > 0


@pytest.mark.live
@pytest.mark.parametrize("lane", ["tokens", "direct"])
async def test_a_real_server_loads_an_adapter_for_each_version(tmp_path: Path, vllm_url: str, lane: Lane) -> None:
    adapter = os.environ.get("ROLLOUTHUB_VLLM_ADAPTER")
    if not adapter:
        pytest.skip("ROLLOUTHUB_VLLM_ADAPTER names no adapter for a vLLM with --enable-lora --max-loras 2")
    adapters, groups = LoraAdapters(VllmControl(vllm_url), kept=2), list[RolloutGroup]()
    with anyio.fail_after(200):
        async with rollouthub.stream_rollouts(
            groups=True,
            environments=(str(WORLD),),
            model="hosted_vllm/tiny",
            base_url=(vllm_url,),
            lane=lane,
            sampling={"max_tokens": 24, "temperature": 1.0, "extra": {"ignore_eos": True}},
            repeats=2,
            batch=1,
            concurrency=4,
            max_staleness=2,
            set={"size": 5},
            directory=tmp_path / "run",
            control=adapters,
            credentials=Credentials({}),
        ) as supply:
            while batch := await supply.batch():
                groups += batch
                await supply.publish_weights(update=partial(adapters.load, adapter), in_flight="keep")
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert len(rollouts) == 10
    assert all(rollout.trainable for rollout in rollouts)
    assert all(rollout.policy_version_min == rollout.policy_version_max for rollout in rollouts)
    assert len({rollout.policy_version_min for rollout in rollouts}) > 1
