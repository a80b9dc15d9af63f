"""The tokens lane against a real vLLM that was started with --enable-scale-out."""

import math
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from mcp_types import Tool

from rollouthub import Message, ModelReply, Sampling
from rollouthub.errors import ConfigError, ContextLimitError
from rollouthub.export.segment import segments
from rollouthub.generation import Model
from rollouthub.messages import user
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_model
from rollouthub.store import open_run
from rollouthub.values import Int32s
from tests.cli.conftest import Hub, hub
from tests.models.servers import ask
from tests.vllm.talking import TURNS

__all__ = ["hub"]

pytestmark = pytest.mark.live

EPISODES = 32
NAME = os.environ.get("ROLLOUTHUB_VLLM_MODEL", "tiny")
ADD = Tool(
    name="add",
    description="Add two numbers.",
    input_schema={"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
)


@pytest.fixture
def url() -> str:
    """The server's base URL; skipped aloud where there is none."""
    found = os.environ.get("ROLLOUTHUB_VLLM_URL")
    if not found:
        pytest.skip("ROLLOUTHUB_VLLM_URL names no vLLM server")
    return found


@asynccontextmanager
async def live(url: str, lane: Lane) -> AsyncGenerator[Model]:
    """The server's model on a lane."""
    config = ModelConfig(name=f"hosted_vllm/{NAME}", base_url=url, lane=lane)
    async with open_model(config, Credentials(os.environ)) as model:
        try:
            await preflight(model)
        except ConfigError as error:
            if "--enable-scale-out" in str(error):
                pytest.skip("the vLLM of ROLLOUTHUB_VLLM_URL was started without --enable-scale-out")
            raise
        yield model


@pytest.mark.parametrize("lane", ["tokens", "direct"])
async def test_vllm_conversations_are_one_row_each_where_ids_are_sent(
    hub: Hub, url: str, tmp_path: Path, lane: Lane
) -> None:
    async with live(url, "tokens"):
        pass
    done = hub(
        "run", str(Path(__file__).parent / "talking.py"), "-m", f"hosted_vllm/{NAME}", "--base-url", url,
        "--lane", lane, "--limit", str(EPISODES), "-c", "16", "--max-tokens", "24", "--temperature", "1.5",
        "--seed", "1", "-o", "run", "--json", timeout=300,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["outcomes"] == {"scored": EPISODES}
    with open_run(tmp_path / "run") as reader:
        rollouts = list(reader.rollouts())
    rows = [segments(rollout) for rollout in rollouts]
    sampled = sum(len(turn.output_token_ids or ()) for rollout in rollouts for turn in rollout.turns)
    assert sampled == sum(sum(row.loss_mask) for each in rows for row in each)
    assert all(len(rollout.turns) >= TURNS and rollout.trainable for rollout in rollouts)
    if lane == "tokens":
        assert [len(each) for each in rows] == [1] * EPISODES
    else:
        # Words sampled at such a temperature are seldom those that encoding them gives.
        drifted = [row.fork for each in rows for row in each[1:]]
        assert drifted
        assert {fork.kind for fork in drifted if fork is not None} == {"drift"}


async def test_both_lanes_say_the_same_of_the_same_seed(url: str) -> None:
    """Prompt, ids, logprobs, words, calls and usage: the routes do what the chat route does."""
    cases = [
        Sampling(temperature=0.0, max_tokens=64),
        Sampling(temperature=1.5, seed=3, max_tokens=40),
        Sampling(temperature=0.0, max_tokens=64, stop=("}",)),
        Sampling(temperature=1.0, seed=2, max_tokens=7),
        Sampling(seed=5, extra={"top_k": 5, "min_p": 0.05}, max_tokens=30),
    ]
    async with live(url, "tokens") as tokens, live(url, "direct") as direct:
        for tools in ([ADD], []):
            for sampling in cases:
                request = ask(user("Add 5 and 12."), tools=tools, sampling=sampling, timeout_seconds=60)
                assert plain(await tokens.generate(request)) == plain(await direct.generate(request))


def plain(reply: ModelReply) -> Any:
    """All of a reply but what the engine makes up anew each time."""
    calls = [(call.name, call.arguments) for call in reply.message.tool_requests]
    words = (reply.message.text, reply.message.reasoning, reply.finish_reason, reply.usage.prompt_tokens)
    return words, calls, reply.prompt_token_ids, reply.output_token_ids, reply.output_logprobs


async def test_logprobs_are_those_the_engine_gives_the_whole_row(url: str) -> None:
    """A second look at the finished row, as a prompt, gives what was recorded while it was sampled in four answers."""
    async with live(url, "tokens") as model:
        row, logprobs, mask = await converse(model)
    async with aiohttp.ClientSession() as session:
        body = {"model": NAME, "prompt": row.tolist(), "max_tokens": 1, "prompt_logprobs": 0, "temperature": 0.0}
        async with session.post(f"{url}/completions", json=body) as response:
            assert response.status == 200, await response.text()
            scored: list[Any] = msgspec.json.decode(await response.read())["choices"][0]["prompt_logprobs"]
    again = [next(iter(each.values()))["logprob"] if each else math.nan for each in scored]
    worst = max(abs(one - other) for one, other, is_learnt in zip(logprobs, again, mask, strict=True) if is_learnt)
    # The cache is filled in other portions: sums in bfloat16 differ in their last places.
    assert worst < 0.15, worst


async def converse(model: Model) -> tuple[Int32s, list[float], list[int]]:
    """Ids of a conversation of four answers, logprobs at the sampled ones, and where those are."""
    conversation: list[Message] = [user("Add 5 and 12.")]
    row, logprobs, mask = Int32s(), list[float](), list[int]()
    for turn in range(TURNS):
        sampling = Sampling(temperature=1.0, seed=turn, max_tokens=24)
        reply = await model.generate(
            ask(*conversation, tools=[ADD], sampling=sampling, session="row", timeout_seconds=60)
        )
        assert reply.prompt_token_ids is not None
        assert reply.output_token_ids is not None
        assert reply.output_logprobs is not None
        assert reply.prompt_token_ids.startswith(row)
        written = len(reply.prompt_token_ids) - len(row)
        row = reply.prompt_token_ids + reply.output_token_ids
        logprobs += [0.0] * written + reply.output_logprobs.tolist()
        mask += [0] * written + [1] * len(reply.output_token_ids)
        results = [Message(role="tool", content="17", tool_call_id=call.id) for call in reply.message.tool_requests]
        conversation += [reply.message, *(results or [user("Go on.")])]
    return row, logprobs, mask


async def test_a_conversation_that_does_not_fit_is_no_fault(url: str) -> None:
    async with live(url, "tokens") as model:
        with pytest.raises(ContextLimitError):
            await model.generate(ask(user("hello there " * 300_000), timeout_seconds=60))
