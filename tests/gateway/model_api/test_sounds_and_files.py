"""Sounds and documents of agents outside: sent with the official clients, in messages and in results of tools."""

import base64
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import openai
import pytest
from openai.types.chat import ChatCompletionContentPartParam, ChatCompletionMessageParam
from openai.types.responses import (
    ResponseFunctionCallOutputItemListParam,
    ResponseInputAudioParam,
    ResponseInputFileParam,
    ResponseInputParam,
)

from rollouthub import Outcome
from rollouthub.messages import data_url, digest_of, media_of
from rollouthub.protocols import SeatAddress
from tests.engine.attached_world import PAPER, SOUND
from tests.gateway.outside import harness

if TYPE_CHECKING:
    from anthropic.types import DocumentBlockParam, MessageParam

Ask = Callable[[SeatAddress], Awaitable[None]]
ENCODED, HEARD = base64.b64encode(PAPER).decode(), base64.b64encode(SOUND).decode()


async def chat(address: SeatAddress) -> None:
    """With the client of chat completions."""
    parts: list[ChatCompletionContentPartParam] = [
        {"type": "text", "text": "Read and listen."},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": data_url(PAPER)}},
        {"type": "input_audio", "input_audio": {"data": HEARD, "format": "wav"}},
    ]
    messages: list[ChatCompletionMessageParam] = [{"role": "user", "content": parts}]
    async with openai.AsyncOpenAI(base_url=address.llm_url, api_key=address.api_key) as client:
        await client.chat.completions.create(model="any", messages=messages)


async def responses(address: SeatAddress) -> None:
    """With the client of the Responses API: a document in a message and in a tool's result, and a sound."""
    paper: ResponseInputFileParam = {"type": "input_file", "filename": "a.pdf", "file_data": data_url(PAPER)}
    sound: ResponseInputAudioParam = {"type": "input_audio", "input_audio": {"data": HEARD, "format": "wav"}}
    output: ResponseFunctionCallOutputItemListParam = [
        {"type": "input_file", "filename": "a.pdf", "file_data": data_url(PAPER)}
    ]
    items: ResponseInputParam = [
        # The API takes sounds, and the client's types have them as items alone.
        {"role": "user", "content": [{"type": "input_text", "text": "Read."}, paper, sound]},  # pyright: ignore[reportAssignmentType]
        {"type": "function_call", "call_id": "1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": output},
    ]
    async with openai.AsyncOpenAI(base_url=address.llm_url, api_key=address.api_key) as client:
        await client.responses.create(model="any", input=items, store=False)


async def messages(address: SeatAddress) -> None:
    """With Anthropic's client: a document in a message and in a tool's result."""
    import anthropic

    paper: DocumentBlockParam = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": ENCODED},
    }
    said: list[MessageParam] = [
        {"role": "user", "content": [{"type": "text", "text": "Read."}, paper]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [paper]}]},
    ]
    base_url = (address.llm_url or "").removesuffix("/v1")
    async with anthropic.AsyncAnthropic(base_url=base_url, api_key=address.api_key) as client:
        await client.messages.create(model="any", max_tokens=100, messages=said)


@pytest.mark.parametrize(
    ("ask", "shown"),
    [(chat, [PAPER, SOUND]), (responses, [PAPER, SOUND, PAPER]), (messages, [PAPER, PAPER])],
    ids=["chat", "responses", "messages"],
)
async def test_sounds_and_documents_reach_the_model_and_the_record_as_they_are(ask: Ask, shown: list[bytes]) -> None:
    async with harness(["read"]) as made:
        rollout = await made.play(ask)
        assert made.model is not None
        (request,) = made.model.requests
    parts = media_of(request.messages)
    assert [request.media[part.digest] for part in parts] == shown
    kinds = {digest_of(PAPER): "application/pdf", digest_of(SOUND): "audio/wav"}
    assert all(part.mime_type == kinds[part.digest] for part in parts)
    assert rollout.outcome is Outcome.SCORED, rollout.faults
    recorded = [part.digest for turn in rollout.turns for part in media_of(turn.messages)]
    assert recorded == [digest_of(content) for content in shown]
