"""Both lanes against a real vLLM, where ROLLOUTHUB_VLLM_URL names one."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
import pytest
from mcp_types import Tool

from rollouthub import Message, ModelReply, Sampling
from rollouthub.errors import ContextLimitError
from rollouthub.generation import Model
from rollouthub.messages import user
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.direct.lane import DirectModel
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_lane, open_model
from tests.models.listening import hear
from tests.models.servers import ask

pytestmark = [
    pytest.mark.live,
    # litellm hands aiohttp its bodies as bytes; a large one makes it warn, and here warnings are errors.
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
]
LANES: tuple[Lane, ...] = ("direct", "litellm")

ADD = Tool(
    name="add",
    description="Add two numbers.",
    input_schema={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


@asynccontextmanager
async def live(lane: Lane) -> AsyncGenerator[Model]:
    """The first model the server lists."""
    url = os.environ.get("ROLLOUTHUB_VLLM_URL")
    if not url:
        pytest.skip("ROLLOUTHUB_VLLM_URL names no vLLM server")
    credentials = Credentials(os.environ)
    sampling = Sampling(max_tokens=64, temperature=0.0)
    config = ModelConfig(name="hosted_vllm/any", base_url=url, sampling=sampling)
    async with open_lane(config, None, credentials) as model:
        assert isinstance(model, DirectModel)
        _, listed = await model.listed_models(5.0)
    served = msgspec.json.decode(listed)["data"][0]["id"]
    config = ModelConfig(name=f"hosted_vllm/{served}", base_url=url, sampling=sampling, lane=lane)
    async with open_model(config, credentials) as model:
        await preflight(model)
        yield model


@pytest.mark.parametrize("lane", LANES)
async def test_a_real_engine_gives_ids_and_logprobs_of_one_length_and_extends_the_turn_before(lane: Lane) -> None:
    async with live(lane) as model:
        conversation = [user("Add 5 and 12.")]
        first = await model.generate(ask(*conversation, tools=[ADD], timeout_seconds=60))
        answers = [Message(role="tool", content="17", tool_call_id=call.id) for call in first.message.tool_requests]
        conversation += [first.message, *(answers or [user("Go on.")])]
        second = await model.generate(ask(*conversation, tools=[ADD], timeout_seconds=60))
    for reply in (first, second):
        assert reply.prompt_token_ids is not None
        assert reply.output_token_ids is not None
        assert reply.output_logprobs is not None
        assert len(reply.output_logprobs) == len(reply.output_token_ids) == reply.usage.output_tokens
        assert len(reply.prompt_token_ids) == reply.usage.prompt_tokens


@pytest.mark.parametrize("lane", LANES)
async def test_a_real_engine_calls_a_tool_when_it_must(lane: Lane) -> None:
    async with live(lane) as model:
        required = Sampling(extra={"tool_choice": "required"})
        reply = await model.generate(ask(user("Add 5 and 12."), tools=[ADD], sampling=required, timeout_seconds=60))
    assert reply.message.tool_requests[0].name == "add"


@pytest.mark.parametrize("lane", LANES)
async def test_a_real_engine_says_when_the_conversation_does_not_fit(lane: Lane) -> None:
    async with live(lane) as model:
        with pytest.raises(ContextLimitError):
            await model.generate(ask(user("hello there " * 300_000), timeout_seconds=60))


async def test_a_real_engine_says_the_same_on_both_lanes() -> None:
    conversation = [user("Add 5 and 12.")]
    for _ in range(2):
        replies: list[ModelReply] = []
        for lane in LANES:
            async with live(lane) as model:
                replies.append(await model.generate(ask(*conversation, tools=[ADD], timeout_seconds=60)))
        direct, litellm = replies
        # The engine makes up the ids of its calls anew each time.
        assert [(call.name, call.arguments) for call in litellm.message.tool_requests] == [
            (call.name, call.arguments) for call in direct.message.tool_requests
        ]
        assert (litellm.message.text, litellm.finish_reason) == (direct.message.text, direct.finish_reason)
        assert litellm.prompt_token_ids == direct.prompt_token_ids
        assert litellm.output_token_ids == direct.output_token_ids
        assert (litellm.usage.prompt_tokens, litellm.usage.output_tokens) == (
            direct.usage.prompt_tokens,
            direct.usage.output_tokens,
        )
        conversation += [direct.message, user("Go on.")]


# Of a call that is cut short or malformed vLLM's parsers show the text, but nothing of it in a stream: no tools there.
STREAMED: dict[str, tuple[tuple[Tool, ...], Sampling]] = {
    "words": ((), Sampling()),
    "one token": ((), Sampling(max_tokens=1)),
    "any token": ((), Sampling(temperature=1.5, seed=3, max_tokens=200)),
    "a call": ((ADD,), Sampling()),
    "a call it must make": ((ADD,), Sampling(extra={"tool_choice": "required"})),
}


@pytest.mark.parametrize(("tools", "sampling"), STREAMED.values(), ids=list(STREAMED))
async def test_a_real_engine_streams_what_it_says_unstreamed(tools: tuple[Tool, ...], sampling: Sampling) -> None:
    request = ask(user("Add 5 and 12."), tools=tools, sampling=sampling, timeout_seconds=60)
    async with live("direct") as model:
        whole = await model.generate(request)
        reply, listener = await hear(model, request)
    assert listener.message == reply.message
    calls = [[(call.name, call.arguments) for call in each.message.tool_requests] for each in (reply, whole)]
    assert calls[0] == calls[1]
    assert (reply.message.text, reply.message.reasoning) == (whole.message.text, whole.message.reasoning)
    assert (reply.finish_reason, reply.usage) == (whole.finish_reason, whole.usage)
    assert (reply.prompt_token_ids, reply.output_token_ids) == (whole.prompt_token_ids, whole.output_token_ids)
    assert reply.output_token_ids is not None
    assert reply.output_logprobs is not None
    assert len(reply.output_logprobs) == len(reply.output_token_ids) == reply.usage.output_tokens


async def test_a_real_engine_refuses_a_stream_that_does_not_fit() -> None:
    async with live("direct") as model:
        with pytest.raises(ContextLimitError):
            await hear(model, ask(user("hello there " * 300_000), timeout_seconds=60))
