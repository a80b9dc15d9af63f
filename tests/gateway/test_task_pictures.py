"""A task's picture, for agents outside: an MCP client is shown it, and each dialect takes it to the model."""

import base64
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import openai
import pytest
from mcp import Client
from mcp_types import ImageContent, TextContent

from rollouthub import ModelReply, ModelRequest, Outcome
from rollouthub.generation import Model
from rollouthub.hosting import InProcessHost
from rollouthub.messages import digest_of, media_of
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer, listening
from rollouthub.models.resolve import open_lane
from rollouthub.protocols import SeatAddress
from tests.engine.picture_world import TASK, TOOL, PictureConfig, PictureWorld
from tests.gateway.outside import harness
from tests.models.tokens.chatml import odd_ids
from tests.models.tokens.vllm_routes import VllmRoutes, sampled

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
    import anthropic

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
LANES: tuple[Lane, ...] = ("direct", "litellm", "tokens")


class Upstream:
    """A mock model behind a server, which keeps the pictures that arrived there."""

    name = "mock/say"

    def __init__(self) -> None:
        self.seen: list[list[bytes]] = []
        self._mock = MockModel(ModelConfig(name=self.name))

    async def generate(self, request: ModelRequest) -> ModelReply:
        """What the mock says."""
        self.seen.append([request.media[part.digest] for part in media_of(request.messages)])
        return await self._mock.generate(request)


@asynccontextmanager
async def model_over(lane: Lane) -> AsyncGenerator[tuple[Model, list[list[bytes]]]]:
    """A model over real HTTP on a lane, and the pictures that arrived at its server, by call."""
    config = ModelConfig(name="hosted_vllm/served", lane=lane)
    async with AsyncExitStack() as stack:
        if lane == "tokens":
            routes = VllmRoutes(sampled(odd_ids("dark", 1)))
            url, seen = await stack.enter_async_context(routes.serve()), routes.seen
        else:
            upstream = Upstream()
            server = ModelServer(upstream, ("served",))
            port = await stack.enter_async_context(listening(server, "127.0.0.1", 0))
            url, seen = f"http://127.0.0.1:{port}/v1", upstream.seen
        yield await stack.enter_async_context(open_lane(config, url, Credentials())), seen


# litellm serialises garbage through pydantic, which says so.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("ask", DIALECTS, ids=lambda ask: ask.__name__)
async def test_a_picture_goes_through_an_mcp_client_a_dialect_and_a_lane_to_the_server_as_it_was(
    ask: Ask, lane: Lane
) -> None:
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
    async with harness(host=host) as made, model_over(lane) as (model, arrived):
        rollout = await made.play(play, model=model)
    (task, tool) = seen
    assert [base64.b64decode(block.data) for block in task if isinstance(block, ImageContent)] == [TASK]
    assert [base64.b64decode(block.data) for block in tool if isinstance(block, ImageContent)] == [TOOL]
    assert arrived == [[TASK]]
    assert rollout.outcome is Outcome.SCORED, rollout.faults
    shown = [part for turn in rollout.turns for part in media_of(turn.messages)]
    assert [(part.digest, part.mime_type) for part in shown] == [(digest_of(TASK), "image/png")]
