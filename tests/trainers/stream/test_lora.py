"""LoRA adapters, one a policy version, loaded by vLLM's and SGLang's routes while rollouts are played."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Outcome, RolloutGroup, SupplyError
from rollouthub.errors import ConfigError, ModelError
from rollouthub.generation import ModelRequest
from rollouthub.messages import user
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from rollouthub.trainers.stream import LoraAdapters, SglangControl, VllmControl
from tests.local_server import serving
from tests.models.servers import Script, say
from tests.models.tokens.chatml import ChatMl
from tests.models.tokens.sglang_shape import SglangShape
from tests.models.tokens.vllm_routes import VllmRoutes, sampled

from .conftest import all_of, supplied

SAID = [*ChatMl().encode("It is done and done.", add_special_tokens=False), ChatMl().end]


@dataclass
class Engine:
    """A server of one kind, its control and the lane to it."""

    id: str
    name: str
    control: Callable[[str], VllmControl | SglangControl]
    server: Callable[[], SglangShape | VllmRoutes]

    @asynccontextmanager
    async def open(self, server: SglangShape | VllmRoutes) -> AsyncGenerator[tuple[str, VllmControl | SglangControl]]:
        """The server's address, and its control."""
        async with serving(server.app()) as url:
            yield url, self.control(url)


ENGINES = [
    Engine("vllm", "hosted_vllm/served", VllmControl, lambda: VllmRoutes(sampled(SAID))),
    Engine("sglang", "sglang/served", SglangControl, SglangShape),
]
every_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.id)


def asked_adapters(server: SglangShape | VllmRoutes) -> list[str]:
    """The adapter of each request for an answer, in their order; empty for the model itself."""
    if isinstance(server, SglangShape):
        return [body.get("lora_path", "") for body in server.asked]
    return ["" if body["model"] == "served" else body["model"] for body in server.asked["generate"]]


@every_engine
@pytest.mark.parametrize("in_flight", ["finish", "abort", "keep"])
async def test_each_version_is_answered_by_its_own_adapter(tmp_path: Path, engine: Engine, in_flight: Any) -> None:
    server, groups = engine.server(), list[RolloutGroup]()
    async with engine.open(server) as (url, control):
        adapters = LoraAdapters(control, kept=2)
        more: dict[str, Any] = {"model": engine.name, "base_url": (url,), "lane": "tokens", "control": adapters}
        async with supplied(tmp_path, max_staleness=0, world={"size": 8}, **more) as supply:
            for step in (1, 2, 3):
                groups += await supply.batch()
                await supply.publish_weights(update=partial(adapters.load, f"/step-{step}"), in_flight=in_flight)
                # What the server says of its own weights is not the policy's version.
                if isinstance(server, SglangShape):
                    server.version = "99"
            groups += await all_of(supply)
    assert sorted(server.adapters.values()) == ["/step-2", "/step-3"]
    asked = asked_adapters(server)
    assert asked[0] == ""
    assert asked[-1] == adapters.adapter == next(name for name, path in server.adapters.items() if path == "/step-3")
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert {rollout.outcome for rollout in rollouts} == {Outcome.SCORED}
    assert {turn.policy_version for rollout in rollouts for turn in rollout.turns} <= {0, 1, 2, 3}
    assert [group.policy_version_max for group in groups] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all("token_versions" not in rollout.gaps for rollout in rollouts)


@pytest.mark.parametrize("version", ["default", "99"])
@pytest.mark.parametrize("first", ["/first", None])
async def test_a_call_in_flight_ends_with_the_adapter_and_version_it_began_with(
    tmp_path: Path, first: str | None, version: str
) -> None:
    server = SglangShape(held=anyio.Event(), version=version)
    async with serving(server.app()) as url:
        adapters = LoraAdapters(SglangControl(url))
        if first is not None:
            await adapters.start(first)
        more: dict[str, Any] = {"model": "sglang/served", "base_url": (url,), "control": adapters, "world": {"size": 1}}
        async with supplied(tmp_path, max_staleness=None, **more) as supply:
            await server.until(lambda: server.running == 4)
            await supply.publish_weights(update=partial(adapters.load, "/second"), in_flight="keep")
            server.held = None
            server.change()
            (group,) = await all_of(supply)
    assert set(server.adapters.values()) == {"/second", *([first] if first else [])}
    names = {path: name for name, path in server.adapters.items()}
    assert asked_adapters(server) == [names[first] if first else ""] * 4
    assert not any("token_versions" in rollout.gaps for rollout in group.rollouts)
    assert {turn.policy_version for rollout in group.rollouts for turn in rollout.turns} == {0}


@every_engine
async def test_an_adapter_that_cannot_be_loaded_changes_nothing(tmp_path: Path, engine: Engine) -> None:
    server = engine.server()
    async with engine.open(server) as (url, control):
        adapters = LoraAdapters(control)
        more: dict[str, Any] = {"model": engine.name, "base_url": (url,), "lane": "tokens", "control": adapters}
        async with supplied(tmp_path, **more) as supply:
            with pytest.raises(SupplyError, match=r"load_lora_adapter answered.*no"):
                await supply.publish_weights(update=partial(adapters.load, "/nowhere"))
            assert supply.policy_version == 0
            with pytest.raises(SupplyError, match="no adapter was loaded"):
                await supply.publish_weights()
            await supply.resume()
            groups = await all_of(supply)
    assert {group.policy_version_max for group in groups} == {0}
    assert set(asked_adapters(server)) == {""}
    assert not server.adapters


@every_engine
async def test_adapters_are_loaded_on_every_replica_or_on_none(engine: Engine) -> None:
    server = engine.server()
    async with serving(server.app()) as url:
        both = type(engine.control(url))([url, "http://127.0.0.1:9"], timeout_seconds=20)
        with pytest.raises(SupplyError, match=r"127\.0\.0\.1:9"):
            await LoraAdapters(both).load("/first")
        assert not server.adapters
        assert await both.are_healthy() == [True, False]


async def test_what_a_server_lacks_is_said_with_what_to_do() -> None:
    async with serving(VllmRoutes().app("none")) as url:
        with pytest.raises(SupplyError, match=r"has no /v1/load_lora_adapter.*VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"):
            await VllmControl(url).load_adapter("a", "/a")
    async with serving(VllmRoutes().app()) as url:
        with pytest.raises(SupplyError, match="cannot be found"):
            await VllmControl(url).unload_adapter("a")
    async with serving(SglangShape().app()) as url:
        with pytest.raises(SupplyError, match="a does not exist"):
            await SglangControl(url).unload_adapter("a")


async def test_vllm_is_asked_for_an_adapter_as_a_model() -> None:
    script = Script(say())
    async with script.serve() as url:
        config = ModelConfig(name="hosted_vllm/served", base_url=url)
        async with open_lane(config, None, Credentials({})) as model:
            await model.generate(ModelRequest([user("What?")], adapter="step-1"))
    assert script.asked[0]["model"] == "step-1"


@pytest.mark.parametrize("lane", ["direct", "litellm"])
async def test_a_server_that_takes_no_adapters_is_not_asked_without_one(lane: Lane) -> None:
    config = ModelConfig(name="openai/served", base_url="http://127.0.0.1:9", lane=lane)
    async with open_lane(config, None, Credentials({})) as model:
        with pytest.raises(ModelError, match="adapter") as caught:
            await model.generate(ModelRequest([user("What?")], adapter="step-1"))
    assert not caught.value.retryable


async def test_workers_elsewhere_cannot_ask_for_adapters(tmp_path: Path) -> None:
    adapters = LoraAdapters(VllmControl("http://127.0.0.1:9"))
    with pytest.raises(ConfigError, match="pool = 'ray'"):
        async with supplied(tmp_path, control=adapters, pool="ray"):
            pass


def test_one_adapter_is_too_few() -> None:
    with pytest.raises(ConfigError, match="kept=1"):
        LoraAdapters(VllmControl("http://127.0.0.1:9"), kept=1)
