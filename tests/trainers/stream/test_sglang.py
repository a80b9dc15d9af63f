"""SGLang as the engine of a stream: exact ids, a version for each token, and weights exchanged while it plays."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Outcome, Rollout, SupplyError
from rollouthub.export import training_rows
from rollouthub.models.tokens import HfChatFormat, TokenModel, open_sglang_engine
from rollouthub.trainers.stream import SglangControl
from rollouthub.trainers.stream.generation_control import InFlight
from tests.local_server import serving
from tests.models.tokens.chatml import ChatMl
from tests.models.tokens.sglang_shape import SglangShape

from .conftest import all_of, supplied


@asynccontextmanager
async def servers(count: int = 1, **shape: Any) -> AsyncGenerator[tuple[list[str], list[SglangShape]]]:
    """Servers of one model; their base URLs."""
    shapes = [SglangShape(**shape) for _ in range(count)]
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(serving(each.app())) for each in shapes], shapes


@asynccontextmanager
async def policy(urls: list[str]) -> AsyncGenerator[TokenModel]:
    """The policy over these servers."""
    async with open_sglang_engine(urls) as engine:
        yield TokenModel("hosted_vllm/policy", engine, HfChatFormat(ChatMl()), max_breaks=3)


def check(rollout: Rollout, shapes: list[SglangShape]) -> set[int]:
    """That a record holds what was asked and sampled, to the token; the versions of its tokens."""
    assert rollout.outcome is Outcome.SCORED
    [spoken] = rollout.turns
    asked = [body["input_ids"] for shape in shapes for body in shape.asked]
    assert spoken.prompt_token_ids is not None
    assert spoken.prompt_token_ids.tolist() in asked
    [row] = training_rows(rollout)
    assert row.response_logprobs == [-(1 + token % 64) / 64 for token in row.response_ids]
    assert ChatMl().decode(row.response_ids[:-1]) == "It is done and done."
    return set(row.segment.versions[row.segment.prompt_length :])


async def test_ids_logprobs_and_sessions_are_those_of_the_servers(tmp_path: Path) -> None:
    async with servers(2) as (urls, shapes), policy(urls) as model, supplied(tmp_path, model=model) as supply:
        groups = await all_of(supply)
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert len(rollouts) == 24
    for rollout in rollouts:
        check(rollout, shapes)
    sessions = [set(shape.sessions) for shape in shapes]
    assert sessions[0].isdisjoint(sessions[1])
    assert all(sessions)


@pytest.mark.parametrize("in_flight", ["finish", "abort", "keep"])
async def test_weights_are_exchanged_while_it_plays_and_every_token_has_its_version(
    tmp_path: Path, in_flight: InFlight
) -> None:
    async with servers(2, seconds=0.01) as (urls, shapes), policy(urls) as model:
        control = SglangControl(urls)
        async with supplied(tmp_path, model=model, control=control, max_staleness=None) as supply:
            await supply.publish_weights(1)
            for shape in shapes:
                await shape.until(lambda shape=shape: shape.running > 0)

            async def update() -> None:
                assert [shape.running for shape in shapes] == [0, 0]
                await control.update_weights_from_disk("/second")

            await supply.publish_weights(2, update, in_flight=in_flight)
            assert await control.versions() == ["2", "2"]
            groups = await all_of(supply)
    assert [shape.weights for shape in shapes] == ["/second", "/second"]
    assert [shape.flushes for shape in shapes] == [2, 2]
    versions = [check(rollout, shapes) for group in groups for rollout in group.rollouts]
    assert {2} in versions
    assert ({1, 2} in versions) is (in_flight == "keep")
    assert set().union(*versions) <= {0, 1, 2}


async def test_what_a_server_refuses_is_an_error_that_names_it() -> None:
    async with servers() as (urls, [shape]):
        control = SglangControl(urls)
        with pytest.raises(SupplyError, match=r"update_weights_from_disk answered.*no such model"):
            await control.update_weights_from_disk("/nowhere")
        with pytest.raises(SupplyError, match="name the servers"):
            await control.transfer("begin_weight_update")
        await control.release_memory("kv_cache")
        assert shape.told == ["release ['kv_cache']"]
    with pytest.raises(SupplyError, match="could not steer SGLang"):
        await SglangControl(urls, timeout_seconds=5).pause("abort")
