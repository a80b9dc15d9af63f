"""A real SGLang: whole episodes on both lanes, streams, cancelled calls, and weights exchanged while it plays.

`ROLLOUTHUB_SGLANG_URL` names a server of 0.5.23 or later, started with --enable-metrics, whose model is `tiny`
(`ROLLOUTHUB_SGLANG_MODEL`); with --enable-lora, `ROLLOUTHUB_SGLANG_ADAPTER` names an adapter that it can load.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import Tool

import rollouthub
from rollouthub import RolloutGroup, Sampling
from rollouthub.errors import ContextLimitError
from rollouthub.export.segment import sampled_ids, segments
from rollouthub.http.exchange import open_pool
from rollouthub.messages import Delta, ReplyStream, user
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from rollouthub.store import open_run
from rollouthub.trainers.stream import LoraAdapters, SglangControl
from rollouthub.trainers.stream.generation_control import InFlight
from tests.cli.conftest import Hub, hub
from tests.models.servers import ask
from tests.vllm.talking import TURNS

__all__ = ["hub"]

pytestmark = pytest.mark.live

EPISODES = 8
NAME = os.environ.get("ROLLOUTHUB_SGLANG_MODEL", "tiny")
WORLD = Path(__file__).parent.parent / "trainers" / "stream" / "world.py"
ADD = Tool(name="add", description="Add.", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
BOTH: tuple[Lane, ...] = ("tokens", "direct")
NOBODY = Credentials({})


@pytest.fixture
def url() -> str:
    """The server's base URL; skipped aloud where there is none."""
    found = os.environ.get("ROLLOUTHUB_SGLANG_URL")
    if not found:
        pytest.skip("ROLLOUTHUB_SGLANG_URL names no SGLang server")
    return found


def config(url: str, lane: Lane) -> ModelConfig:
    """The server's model on a lane."""
    return ModelConfig(name=f"sglang/{NAME}", base_url=url, lane=lane)


@pytest.mark.parametrize("lane", BOTH)
def test_sglang_conversations_are_token_exact_and_one_row_where_ids_are_sent(
    hub: Hub, url: str, tmp_path: Path, lane: Lane
) -> None:
    done = hub(
        "run", str(Path(__file__).parent.parent / "vllm" / "talking.py"), "-m", f"sglang/{NAME}", "--base-url", url,
        "--lane", lane, "--limit", str(EPISODES), "-c", "8", "--max-tokens", "16", "--temperature", "1.5",
        "-o", "run", "--json", timeout=400,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["outcomes"] == {"scored": EPISODES}
    with open_run(tmp_path / "run") as reader:
        rollouts = list(reader.rollouts())
    for rollout in rollouts:
        assert len(rollout.turns) >= TURNS
        assert rollout.trainable, rollout.trainable_reason
        rebuilt = sampled_ids(segments(rollout))
        for turn in rollout.turns:
            assert turn.token_source == "engine"
            assert turn.output_logprobs is not None
            assert turn.output_token_ids is not None
            assert 0 < len(turn.output_token_ids) == len(turn.output_logprobs)
            assert rebuilt[turn.index] == turn.output_token_ids
    rows = [len(segments(rollout)) for rollout in rollouts]
    assert (rows == [1] * EPISODES) is (lane == "tokens")


async def test_both_lanes_and_a_stream_say_the_same(url: str) -> None:
    pieces = list[Delta]()

    async def listen(delta: Delta) -> None:
        pieces.append(delta)

    greedy = Sampling(temperature=0.0, max_tokens=16)
    asked = partial(ask, user("Add 5 and 12."), tools=[ADD], sampling=greedy, timeout_seconds=120)
    async with open_lane(config(url, "tokens"), None, NOBODY) as model:
        tokens = await model.generate(asked())
    async with open_lane(config(url, "direct"), None, NOBODY) as model:
        whole = await model.generate(asked())
        streamed = await model.generate(asked(stream=ReplyStream(listen)))
    replies = (tokens, whole, streamed)
    assert len({reply.message.text for reply in replies}) == 1
    assert tokens.prompt_token_ids == whole.prompt_token_ids == streamed.prompt_token_ids
    assert tokens.output_token_ids == whole.output_token_ids == streamed.output_token_ids
    assert "".join(piece.text for piece in pieces) == streamed.message.text
    for reply in replies:
        assert reply.output_logprobs is not None
        assert len(reply.output_logprobs) == 16


async def test_a_conversation_that_does_not_fit_is_no_fault(url: str) -> None:
    for lane in BOTH:
        async with open_lane(config(url, lane), None, NOBODY) as model:
            with pytest.raises(ContextLimitError):
                await model.generate(ask(user("hello there " * 100_000), timeout_seconds=60))


async def running(url: str) -> float:
    """How many requests the server says it computes."""
    async with open_pool() as pool:
        answer = await pool.exchange("GET", url.removesuffix("/v1") + "/metrics", seconds=10)
    lines = [line for line in answer.body.decode().splitlines() if line.startswith("sglang:num_running_reqs{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


@pytest.mark.parametrize("lane", BOTH)
async def test_a_cancelled_call_ends_on_the_server(url: str, lane: Lane) -> None:
    long = Sampling(max_tokens=1500, extra={"ignore_eos": True})
    async with open_lane(config(url, lane), None, NOBODY) as model, anyio.create_task_group() as tasks:
        with anyio.fail_after(60):
            tasks.start_soon(model.generate, ask(user("What?"), sampling=long))
            while not await running(url):  # noqa: ASYNC110 - the server tells nobody
                await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), anyio.fail_after(10):
                while await running(url):  # noqa: ASYNC110
                    await anyio.sleep(0.1)


def supply_of(folder: Path, url: str, **more: Any) -> Any:
    """A supply of short answers."""
    return rollouthub.stream_rollouts(
        groups=True,
        environments=(str(WORLD),),
        model=f"sglang/{NAME}",
        base_url=(url,),
        lane="tokens",
        sampling={"max_tokens": 24, "temperature": 1.0, "extra": {"ignore_eos": True}},
        repeats=2,
        batch=1,
        concurrency=4,
        max_staleness=2,
        set={"size": 5},
        directory=folder / "run",
        credentials=NOBODY,
        **more,
    )


@pytest.mark.parametrize("in_flight", ["finish", "abort", "keep"])
async def test_a_real_server_exchanges_its_weights_in_mid_run(tmp_path: Path, url: str, in_flight: InFlight) -> None:
    control, groups = SglangControl(url), list[RolloutGroup]()
    async with open_pool() as pool:
        info = await pool.exchange("GET", url.removesuffix("/v1") + "/model_info", seconds=10)
    info: Any = info.json()
    assert await control.are_healthy() == [True]
    await control.updated(0)  # what an earlier run told it would be a version of the future
    with anyio.fail_after(300):
        async with supply_of(tmp_path, url, control=control) as supply:
            while batch := await supply.batch():
                groups += batch
                load = partial(control.update_weights_from_disk, info["model_path"])
                version = await supply.publish_weights(update=load, in_flight=in_flight)
                assert await control.versions() == [str(version)]
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert len(rollouts) == 10
    assert all(rollout.trainable for rollout in rollouts)
    assert len({rollout.policy_version_min for rollout in rollouts}) > 1


async def test_a_real_server_loads_an_adapter_for_each_version(tmp_path: Path, url: str) -> None:
    adapter = os.environ.get("ROLLOUTHUB_SGLANG_ADAPTER")
    if not adapter:
        pytest.skip("ROLLOUTHUB_SGLANG_ADAPTER names no adapter, or the server was started without --enable-lora")
    control, groups = SglangControl(url), list[RolloutGroup]()
    await control.updated(0)
    adapters = LoraAdapters(control, kept=2)
    with anyio.fail_after(300):
        async with supply_of(tmp_path, url, control=adapters) as supply:
            while batch := await supply.batch():
                groups += batch
                await supply.publish_weights(update=partial(adapters.load, adapter), in_flight="keep")
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    assert len(rollouts) == 10
    assert all(rollout.trainable for rollout in rollouts)
    assert all(rollout.policy_version_min == rollout.policy_version_max for rollout in rollouts)
    assert len({rollout.policy_version_min for rollout in rollouts}) > 1
