"""A task's picture, for agents outside: an MCP client is shown it, and each dialect takes it to the model."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import openai
import pytest
from mcp import Client
from mcp_types import ImageContent, TextContent

from rollouthub import Outcome
from rollouthub.hosting import InProcessHost
from rollouthub.messages import digest_of, media_of
from rollouthub.protocols import SeatAddress
from tests.engine.picture_world import TASK, TOOL, PictureConfig, PictureWorld
from tests.gateway.outside import harness

Shown = list[TextContent | ImageContent]
Ask = Callable[[SeatAddress, Shown], Awaitable[None]]


async def chat(address: SeatAddress, shown: Shown) -> None:
    """With the client of chat completions."""
    parts: list[Any] = [
        {"type": "text", "text": block.text}
        if isinstance(block, TextContent)
        else {"type": "image_url", "image_url": {"url": f"data:{block.mime_type};base64,{block.data}"}}
        for block in shown
    ]
    async with openai.AsyncOpenAI(base_url=address.llm_url, api_key=address.api_key) as client:
        await client.chat.completions.create(model="any", messages=[{"role": "user", "content": parts}])


async def responses(address: SeatAddress, shown: Shown) -> None:
    """With the client of the Responses API."""
    parts: list[Any] = [
        {"type": "input_text", "text": block.text}
        if isinstance(block, TextContent)
        else {"type": "input_image", "detail": "auto", "image_url": f"data:{block.mime_type};base64,{block.data}"}
        for block in shown
    ]
    async with openai.AsyncOpenAI(base_url=address.llm_url, api_key=address.api_key) as client:
        await client.responses.create(model="any", input=[{"role": "user", "content": parts}], store=False)


async def messages(address: SeatAddress, shown: Shown) -> None:
    """With Anthropic's client."""
    parts: list[Any] = [
        {"type": "text", "text": block.text}
        if isinstance(block, TextContent)
        else {"type": "image", "source": {"type": "base64", "media_type": block.mime_type, "data": block.data}}
        for block in shown
    ]
    base_url = (address.llm_url or "").removesuffix("/v1")
    async with anthropic.AsyncAnthropic(base_url=base_url, api_key=address.api_key) as client:
        await client.messages.create(model="any", max_tokens=100, messages=[{"role": "user", "content": parts}])


DIALECTS: tuple[Ask, ...] = (chat, responses, messages)


@pytest.mark.parametrize("ask", DIALECTS, ids=lambda ask: ask.__name__)
async def test_a_picture_goes_through_an_mcp_client_and_a_dialect_to_the_model_as_it_was(ask: Ask) -> None:
    seen: list[Shown] = []

    async def play(address: SeatAddress) -> None:
        async with Client(address.agent_url) as client:
            assert "shows 1 of pictures" in (client.instructions or "")
            result = await client.call_tool("get_task", {})
            shown = [block for block in result.content if isinstance(block, TextContent | ImageContent)]
            seen.append(shown)
            await ask(address, shown)
            looked = await client.call_tool("look", {})
            seen.append([block for block in looked.content if isinstance(block, ImageContent)])

    host = InProcessHost("pictures", PictureWorld, PictureConfig())
    async with harness(["dark"], host) as made:
        rollout = await made.play(play)
        assert made.model is not None
        (request,) = made.model.requests
    (task, tool) = seen
    assert [base64.b64decode(block.data) for block in task if isinstance(block, ImageContent)] == [TASK]
    assert [base64.b64decode(block.data) for block in tool if isinstance(block, ImageContent)] == [TOOL]
    (part,) = media_of(request.messages)
    assert request.media[part.digest] == TASK
    assert (part.digest, part.mime_type) == (digest_of(TASK), "image/png")
    assert rollout.outcome is Outcome.SCORED, rollout.faults
    assert [part.digest for turn in rollout.turns for part in media_of(turn.messages)] == [digest_of(TASK)]
