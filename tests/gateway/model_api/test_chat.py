"""The chat-completions dialect: what it reads, and answers that the official client takes."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from rollouthub.gateway.model_api.chat_dialect import Chat
from rollouthub.gateway.model_api.dialect import CallProblem
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, Media, Message, Text, ToolPiece, ToolRequest, assistant, system, user
from rollouthub.models.direct.chat_wire import encode_tools, to_wire
from rollouthub.values import Float32s, Int32s
from tests.gateway.model_api.api import USAGE, Api, Scripted, says, serving
from tests.strategies import names, tool_requests, words

PNG = "data:image/png;base64,cG5n"
ADD: Any = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = ToolRequest(id="call_1", name="add", arguments='{"a": 1}')
OTHER = ToolRequest(id="call_2", name="add", arguments='{"a":2}')


def body(*messages: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"model": "any", "messages": messages or [{"role": "user", "content": "hi"}], **fields}).encode()


# --- reading ----------------------------------------------------------------------------------------------------

texts = st.lists(st.builds(Text, text=words), min_size=2, max_size=3).map(tuple)
our_messages = st.one_of(
    st.builds(Message, role=st.sampled_from(["system", "user"]), content=words | texts),
    st.builds(Message, role=st.just("tool"), content=words | texts, tool_call_id=names),
    st.builds(
        Message,
        role=st.just("assistant"),
        content=words | texts,
        reasoning=st.none() | words,
        tool_requests=st.lists(tool_requests, max_size=2).map(tuple),
    ),
)
READER = Chat()


@settings(max_examples=50, deadline=None)
@given(st.lists(our_messages, min_size=1, max_size=5))
def test_what_our_loop_sends_is_read_back_as_it_was(messages: list[Message]) -> None:
    wire = [to_wire(message, {}, with_reasoning=True) for message in messages]
    sent = msgspec.json.encode({"model": "m", "messages": wire})
    asked = READER.read(sent)
    assert list(asked.messages) == messages
    assert (asked.tools, asked.max_tokens, asked.constraints, asked.media) == ((), None, {}, {})


@settings(max_examples=50, deadline=None)
@given(st.builds(assistant, words, tool_requests) | our_messages.filter(lambda message: message.role == "assistant"))
def test_an_answer_comes_back_from_the_official_client_as_it_was(message: Message) -> None:
    message = message.model_copy(update={"content": message.text})
    asked = READER.read(body())
    answer = ChatCompletion.model_validate_json(READER.whole(asked, ModelReply(message=message), "1"))
    again = READER.read(body(answer.choices[0].message.model_dump(exclude_none=True)))
    assert again.messages[0] == message


def test_tools_are_read_as_our_loop_sends_them_and_decoded_once() -> None:
    tools = (Tool(name="add", description="Sum.", input_schema={"type": "object", "required": ["a"]}),)
    sent = b'{"messages":[{"role":"user","content":""}],"tools":%s}' % bytes(encode_tools(tools))
    first, second = READER.read(sent), READER.read(sent + b" ")
    assert first.tools == tools
    assert first.tools[0] is second.tools[0]


def test_a_message_sent_again_is_the_same_object() -> None:
    reader = Chat()
    first = reader.read(body({"role": "user", "content": "hi"}))
    second = reader.read(body({"role": "user", "content": "hi"}, {"role": "user", "content": "again"}))
    assert first.messages[0] is second.messages[0]


def test_media_are_there_each_time_they_are_named() -> None:
    seen = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}]}
    reader = Chat()
    twice, once = reader.read(body(seen, seen)), reader.read(body(seen))
    for asked in (twice, once):
        message = asked.messages[-1]
        assert isinstance(message.content, tuple) and isinstance(message.content[0], Media)
        assert asked.media[message.content[0].digest] == b"png"


def test_sound_is_kept_as_media() -> None:
    heard = {"type": "input_audio", "input_audio": {"data": "cG5n", "format": "wav"}}
    (message,) = READER.read(body({"role": "user", "content": [heard]})).messages
    assert isinstance(message.content[0], Media) and message.content[0].mime_type == "audio/wav"


def test_what_real_clients_add_is_read_past() -> None:
    asked = READER.read(
        body(
            {"role": "developer", "content": [{"type": "text", "text": "be brief"}], "name": "boss"},
            {"role": "user", "content": "hi", "name": "ann", "cache_control": {"type": "ephemeral"}},
            {"role": "assistant", "content": None, "refusal": "no", "function_call": None, "tool_calls": None},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "never"}], "annotations": []},
            {
                "role": "assistant",
                "tool_calls": [{"id": "1", "type": "function", "index": 0, "function": {"name": "f"}}],
            },
            {"role": "tool", "content": [{"type": "text", "text": "4"}], "tool_call_id": "1", "name": "f"},
            tools=[],
            stream=None,
            n=1,
            temperature=0.3,
            top_p=1,
            seed=7,
            logprobs=True,
            top_logprobs=5,
            logit_bias={"1": 2},
            store=True,
            metadata={"a": "b"},
            user="ann",
            reasoning_effort="high",
            service_tier="auto",
            prompt_cache_key="k",
            safety_identifier="s",
            verbosity="low",
            modalities=["text"],
            functions=None,
            tool_choice="auto",
            parallel_tool_calls=True,
            response_format={"type": "text"},
            extra_thing=[1],
        )
    )
    assert list(asked.messages) == [
        system("be brief"),
        user("hi"),
        assistant("no"),
        assistant("never"),
        assistant("", ToolRequest(id="1", name="f", arguments="{}")),
        Message(role="tool", content="4", tool_call_id="1"),
    ]
    assert (asked.constraints, asked.is_stream, asked.max_tokens) == ({}, False, None)


def test_what_shapes_the_answer_is_kept() -> None:
    schema: dict[str, Any] = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    choice = {"type": "function", "function": {"name": "add"}}
    asked = READER.read(
        body(
            tools=[ADD],
            stop=["END"],
            tool_choice=choice,
            parallel_tool_calls=False,
            response_format=schema,
            max_tokens=9,
            max_completion_tokens=5,
        )
    )
    assert asked.constraints == {
        "stop": ["END"],
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "response_format": schema,
    }
    assert asked.max_tokens == 5


def test_constraints_on_tools_go_with_the_tools() -> None:
    assert READER.read(body(tool_choice="required", parallel_tool_calls=False)).constraints == {}


@pytest.mark.parametrize(
    ("sent", "words_said"),
    [
        (b"{", "not JSON"),
        (b"[]", "not understood"),
        (b"\xff", "not JSON"),
        (b'{"messages": [' + b"[" * 100_000, "deep"),
        (b'{"model": "m"}', "messages"),
        (b'{"messages": []}', "empty"),
        (body(n=2), "n=2"),
        (body(functions=[{"name": "f"}]), "functions"),
        (body({"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": ""}}), "function_call"),
        (body({"role": "function", "name": "f", "content": ""}), "'function'"),
        (body({"role": "user"}), r"messages\[0\]: a user message lacks content"),
        (body({"role": "tool", "content": ""}), "tool_call_id"),
        (body({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y"}}]}), "not fetched"),
        (body({"role": "user", "content": [{"type": "file", "file": {}}]}), "'file'"),
        (body({"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,%"}]}), "base64"),
        (body(modalities=["audio"]), "modalities"),
        (body(tools=[{"type": "custom", "custom": {"name": "f"}}]), "not understood"),
        (body(tools=[ADD], tool_choice="sometimes"), "tool_choice"),
        (body(tools=[ADD], tool_choice={"type": "allowed_tools"}), "tool_choice"),
        (body(max_tokens=0), "max_tokens=0"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(sent: bytes, words_said: str) -> None:
    with pytest.raises(ValueError, match=words_said):
        READER.read(sent)


# --- the official client ----------------------------------------------------------------------------------------


@asynccontextmanager
async def talking(*script: Scripted | CallProblem) -> AsyncGenerator[tuple[openai.AsyncOpenAI, Api]]:
    async with (
        serving(Chat(), *script) as api,
        openai.AsyncOpenAI(
            base_url=f"{api.base_url}/v1",
            api_key="k",
            max_retries=0,
            # Certificates take 20 ms to load, and there are none.
            http_client=openai.DefaultAsyncHttpxClient(verify=False),
            _strict_response_validation=True,
        ) as client,
    ):
        yield client, api


async def test_the_official_client_takes_a_whole_answer() -> None:
    said = assistant("Adding.", CALL, OTHER).model_copy(update={"reasoning": "hm"})
    async with talking(says(said, finish_reason="stop")) as (client, api):
        answer = await client.chat.completions.create(
            model="gpt-x", messages=[{"role": "user", "content": "1+1"}], tools=[ADD], max_tokens=50
        )
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content, choice.logprobs) == ("tool_calls", "Adding.", None)
    assert choice.message.tool_calls is not None
    assert [(call.id, call.type) for call in choice.message.tool_calls] == [
        ("call_1", "function"),
        ("call_2", "function"),
    ]
    assert choice.message.model_extra is not None and choice.message.model_extra["reasoning_content"] == "hm"
    assert answer.model == "gpt-x"
    assert answer.usage is not None and answer.usage.total_tokens == 18
    assert api.last.messages == [user("1+1")]


async def collected(client: openai.AsyncOpenAI, **fields: Any) -> list[ChatCompletionChunk]:
    stream = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "1+1"}], stream=True, **fields
    )
    return [chunk async for chunk in stream]


def joined(chunks: list[ChatCompletionChunk]) -> tuple[str, dict[int, list[str]]]:
    """The text, and each tool call's id, name and arguments, as a client puts them together."""
    text, calls = "", dict[int, list[str]]()
    for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                assert call.function is not None
                whole = calls.setdefault(call.index, ["", "", ""])
                for place, piece in enumerate((call.id, call.function.name, call.function.arguments)):
                    whole[place] += piece or ""
    return text, calls


STREAMED = (
    Delta(reasoning="h"),
    Delta(reasoning="m"),
    Delta(text="Add"),
    Delta(text="ing."),
    Delta(tools=(ToolPiece(0, id="call_1", name="add"),)),
    Delta(tools=(ToolPiece(0, '{"a"'), ToolPiece(0, ": 1}"), ToolPiece(1, '{"a":', "call_2", "add"))),
    Delta(tools=(ToolPiece(1, "2}"),)),
)
WHOLE = assistant("Adding.", CALL, OTHER).model_copy(update={"reasoning": "hm"})


@pytest.mark.parametrize(
    "deltas",
    [STREAMED, (), STREAMED[:1], STREAMED[:3], STREAMED[:5], (Delta(tools=(ToolPiece(0, '{"a"'),)), *STREAMED[:2])],
    ids=["all", "none", "thought", "words", "tool", "nameless"],
)
async def test_the_official_client_puts_a_stream_together(deltas: tuple[Delta, ...]) -> None:
    async with talking(says(WHOLE, *deltas)) as (client, api):
        chunks = await collected(client, stream_options={"include_usage": True})
    assert api.last.is_stream
    text, calls = joined(chunks)
    assert text == "Adding."
    assert calls == {0: ["call_1", "add", '{"a": 1}'], 1: ["call_2", "add", '{"a":2}']}
    thought = [choice.delta.model_extra or {} for chunk in chunks for choice in chunk.choices]
    assert "".join(extra.get("reasoning_content", "") for extra in thought) == "hm"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason] == [
        "tool_calls"
    ]
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == USAGE.prompt_tokens


async def test_usage_is_streamed_only_where_it_was_asked_for() -> None:
    async with talking(says(assistant("hi"))) as (client, _):
        chunks = await collected(client)
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


async def test_the_clients_own_accumulation_reads_the_stream() -> None:
    async with (
        talking(says(WHOLE, *STREAMED)) as (client, _),
        client.chat.completions.stream(model="m", messages=[{"role": "user", "content": ""}]) as stream,
    ):
        answer = await stream.get_final_completion()
    message = answer.choices[0].message
    assert message.content == "Adding." and message.tool_calls is not None
    assert [call.function.arguments for call in message.tool_calls] == ['{"a": 1}', '{"a":2}']


async def test_a_stream_that_breaks_off_raises_in_the_client() -> None:
    broken = says(assistant("hi"), Delta(text="h"), breaks=CallProblem("failed", 502, "gone", "model_failed"))
    async with talking(broken) as (client, _):
        with pytest.raises(openai.APIError, match="gone"):
            await collected(client)


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (CallProblem("invalid", 400, "no"), openai.BadRequestError),
        (CallProblem("context", 400, "too long", "context_length_exceeded"), openai.BadRequestError),
        (CallProblem("unauthorized", 401, "who"), openai.AuthenticationError),
        (CallProblem("closed", 403, "over", "episode_closed"), openai.PermissionDeniedError),
        (CallProblem("limit", 403, "enough", "turn_limit"), openai.PermissionDeniedError),
        (CallProblem("busy", 429, "wait"), openai.RateLimitError),
        (CallProblem("failed", 502, "gone"), openai.InternalServerError),
    ],
)
async def test_a_problem_raises_the_clients_own_error(problem: CallProblem, error: type[openai.APIStatusError]) -> None:
    async with talking(problem) as (client, _):
        with pytest.raises(error, match=problem.message) as raised:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": ""}])
    assert raised.value.code == problem.code


async def test_tokens_stay_with_the_hub() -> None:
    reply = ModelReply(
        message=assistant("hi"),
        usage=USAGE,
        prompt_token_ids=Int32s([90001]),
        output_token_ids=Int32s([90002]),
        output_logprobs=Float32s([-0.25]),
        cost=0.5,
    )
    chat = Chat()
    asked = chat.read(body(logprobs=True, return_token_ids=True))
    events = chat.events(asked, "1")
    shown = chat.whole(asked, reply, "1") + events.begin() + events.end(reply)
    for secret in (b"9000", b"token_ids", b"0.25", b"cost"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("given", "message", "told"),
    [
        (None, assistant("x"), "stop"),
        ("eos", assistant("x"), "stop"),
        ("length", assistant("x", CALL), "length"),
        ("stop", assistant("x", CALL), "tool_calls"),
        ("tool_calls", assistant("x"), "stop"),
        ("content_filter", assistant("x"), "content_filter"),
    ],
)
def test_an_answers_end_is_told_in_the_wires_words(given: str | None, message: Message, told: str) -> None:
    answer = READER.whole(READER.read(body()), ModelReply(message=message, finish_reason=given), "1")
    assert json.loads(answer)["choices"][0]["finish_reason"] == told
