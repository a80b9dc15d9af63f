"""The Messages dialect: what it reads, and answers that the official client and its stream take."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rollouthub.gateway.model_api.anthropic_messages import AnthropicMessages, count_tokens
from rollouthub.gateway.model_api.dialect import CallProblem
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, Media, Message, Text, ToolPiece, ToolRequest, assistant, system, user
from tests.gateway.model_api.api import Api, Scripted, says, serving

if TYPE_CHECKING:  # it takes seconds to load, which every process that collects tests would spend
    import anthropic
    from anthropic.types import MessageParam

LONG = "mcp__env__" + "x" * 80
ADD: Any = {"name": "add", "description": "Sum.", "input_schema": {"type": "object", "properties": {}}}
CALL = ToolRequest(id="call_1", name="add", arguments='{"a":1}')
OTHER = ToolRequest(id="call_2", name="add", arguments='{ "a": 2 }')
WHOLE = assistant("Adding.", CALL, OTHER).model_copy(update={"reasoning": " hm\n\nyes\n"})
SOURCE = {"type": "base64", "media_type": "image/png", "data": "cG5n"}
PNG: dict[str, Any] = {"type": "image", "source": SOURCE}
GO: "MessageParam" = {"role": "user", "content": "go"}
READER = AnthropicMessages()


def body(*messages: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "any", "max_tokens": 50, "messages": messages or [GO], **fields}).encode()


def answered(message: Message) -> list[dict[str, Any]]:
    """The content blocks of an answer, as an agent keeps them."""
    from anthropic.types import Message as TheirMessage

    whole = READER.whole(READER.read(body()), ModelReply(message=message, finish_reason="stop"), "1")
    return TheirMessage.model_validate_json(whole).model_dump(mode="json", exclude_none=True)["content"]


# --- reading ----------------------------------------------------------------------------------------------------


def test_a_conversation_is_read_as_our_loop_would_send_it() -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    asked = READER.read(
        body(
            {"role": "user", "content": [{"type": "text", "text": "1+1", **cached}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": " hm\n", "signature": "rollouthub"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "text", "text": "Add"},
                    {"type": "text", "text": "ing."},
                    {"type": "tool_use", "id": "t1", "name": LONG, "input": {"a": "é", "b": [1.5]}},
                    {"type": "tool_use", "id": "t2", "name": "add", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True, **cached},
                    {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "2"}]},
                    {"type": "text", "text": "go on"},
                ],
            },
            system=[
                {"type": "text", "text": "x-anthropic-billing-header: cc_version=2; cch=1;"},
                {"type": "text", "text": "be brief", **cached},
            ],
            tools=[{**ADD, "name": LONG, **cached}, ADD],
            thinking={"type": "enabled", "budget_tokens": 1024},
            temperature=1,
            top_k=3,
            metadata={"user_id": "u"},
            context_management={"edits": []},
            betas=["x"],
        )
    )
    first = ToolRequest(id="t1", name=LONG, arguments='{"a": "é", "b": [1.5]}')
    second = ToolRequest(id="t2", name="add", arguments="{}")
    assert list(asked.messages) == [
        system("be brief"),
        user("1+1"),
        assistant("Adding.", first, second).model_copy(update={"reasoning": " hm\n"}),
        Message(role="tool", content="no", tool_call_id="t1"),
        Message(role="tool", content="2", tool_call_id="t2"),
        user("go on"),
    ]
    assert [tool.name for tool in asked.tools] == [LONG, "add"]
    assert asked.tools[1].input_schema == ADD["input_schema"]
    assert (asked.max_tokens, asked.constraints, asked.is_stream) == (50, {}, False)


@pytest.mark.parametrize(
    "message",
    [
        WHOLE,
        assistant("four"),
        assistant("", CALL),
        assistant("", ToolRequest(id="c", name="add", arguments="")),
        assistant("", ToolRequest(id="c", name="add", arguments="{ broken")),
        assistant("", ToolRequest(id="c", name="add", arguments="[1]")),
        assistant("", ToolRequest(id="c", name="add", arguments='{"b": 1.0, "a": "\\u00e9"}')),
    ],
)
def test_an_answer_comes_back_as_the_model_wrote_it(message: Message) -> None:
    first, again = READER.read(body(GO, {"role": "assistant", "content": answered(message)})).messages
    assert (first, again) == (user("go"), message)


def test_arguments_written_anew_by_another_language_are_known_again() -> None:
    wrote = ToolRequest(id="c", name="add", arguments='{"b": 1.0,"a": {"d": 2, "c": []}}')
    (block,) = answered(assistant("", wrote))
    block["input"] = {"a": {"c": [], "d": 2}, "b": 1}
    assert READER.read(body(GO, {"role": "assistant", "content": [block]})).messages[1].tool_requests == (wrote,)


def test_what_another_call_wrote_is_not_taken_for_this_ones() -> None:
    answered(assistant("", ToolRequest(id="mine", name="add", arguments='{"a":9}')))
    block = {"type": "tool_use", "id": "yours", "name": "add", "input": {"a": 9}}
    (_, other) = READER.read(body(GO, {"role": "assistant", "content": [block]})).messages
    assert other.tool_requests[0].arguments == '{"a": 9}'


def test_what_another_episode_wrote_under_the_same_id_is_not_taken_for_this_ones() -> None:
    wrote = assistant("", ToolRequest(id="call-0-0", name="add", arguments='{"a":9}'))
    mine = READER.read(body(), b"mine")
    READER.whole(mine, ModelReply(message=wrote), "1")
    events = READER.events(READER.read(body(), b"theirs"), "2")
    events.end(ModelReply(message=assistant("", ToolRequest(id="call-0-0", name="add", arguments='{ "a":9 }'))))
    block = {"type": "tool_use", "id": "call-0-0", "name": "add", "input": {"a": 9}}
    again = body(GO, {"role": "assistant", "content": [block]})
    read = [READER.read(again, scope) for scope in (b"mine", b"theirs", b"other")]
    told = [asked.messages[1].tool_requests[0].arguments for asked in read]
    assert told == ['{"a":9}', '{ "a":9 }', '{"a": 9}']


def test_pictures_are_kept_as_media_also_in_results() -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": [PNG]}
    use: dict[str, Any] = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}],
    }
    asked = READER.read(body({"role": "user", "content": [PNG]}, use, {"role": "user", "content": [result]}))
    for message in (asked.messages[0], asked.messages[2]):
        assert isinstance(message.content[0], Media)
        assert asked.media[message.content[0].digest] == b"png"


def test_a_document_of_words_is_read_as_its_words() -> None:
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
    (message,) = READER.read(body({"role": "user", "content": [document, {"type": "text", "text": "?"}]})).messages
    assert message.content == (Text(text="words"), Text(text="?"))


def test_tools_a_chat_model_cannot_have_are_left_out() -> None:
    hosted: list[Any] = [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 1},
        {"type": "of_tomorrow", "name": "x"},
    ]
    asked = READER.read(
        body(tools=[*hosted, {**ADD, "type": "custom"}], tool_choice={"type": "tool", "name": "web_search"})
    )
    assert [tool.name for tool in asked.tools] == ["add"]
    assert asked.constraints == {}
    assert READER.read(body(tools=hosted)).tools == ()


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        ({"type": "auto"}, None),
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": LONG}, {"type": "function", "function": {"name": LONG}}),
    ],
)
def test_a_choice_of_tools_is_told_to_the_model(choice: dict[str, Any], meant: Any) -> None:
    asked = READER.read(body(tools=[{**ADD, "name": LONG}], tool_choice={**choice, "disable_parallel_tool_use": True}))
    assert asked.constraints.get("tool_choice") == meant
    assert asked.constraints["parallel_tool_calls"] is False


def test_what_shapes_the_answer_is_kept() -> None:
    wanted: Any = {"type": "json_schema", "schema": {"type": "object", "properties": {}}}
    asked = READER.read(body(stop_sequences=["END"], output_config={"format": wanted}, stream=True))
    assert asked.constraints["stop"] == ["END"]
    shape: Any = asked.constraints["response_format"]
    assert shape["json_schema"]["schema"]["type"] == "object"
    assert asked.is_stream


@pytest.mark.parametrize(
    ("sent", "words_said"),
    [
        (b"{", "not JSON"),
        (b"{}", "not understood"),
        (b'{"messages": []}', "empty"),
        (body({"role": "wizard", "content": "x"}), "wizard"),
        (body({"role": "user"}), r"messages\[0\]: content"),
        (body({"role": "user", "content": [5]}), "object"),
        (body({"role": "user", "content": [{**PNG, "source": {"type": "url", "url": "http://x"}}]}), "not fetched"),
        (body({"role": "user", "content": [{"type": "document", "source": SOURCE}]}), "document"),
        (body({"role": "assistant", "content": [{"type": "tool_use", "input": {}}]}), "lacks its id"),
        (body({"role": "user", "content": [{"type": "tool_result", "content": ""}]}), "tool_use_id"),
        (body(mcp_servers=[{"url": "http://x"}]), "mcp_servers"),
        (body(max_tokens=-1), "max_tokens"),
        (body(tools=[ADD], tool_choice={"type": "sometimes"}), "sometimes"),
        (body({"role": "user", "content": [{"type": "text", "text": 5}]}), "understood"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(sent: bytes, words_said: str) -> None:
    with pytest.raises(ValueError, match=words_said):
        READER.read(sent)


def test_tokens_are_estimated_without_a_model() -> None:
    few = json.loads(count_tokens(body({"role": "user", "content": "word " * 40})))["input_tokens"]
    assert 40 <= few <= 80
    pictures = json.loads(count_tokens(body({"role": "user", "content": [PNG]})))["input_tokens"]
    assert 1500 <= pictures <= 2000
    with pytest.raises(ValueError, match="messages"):
        count_tokens(b"{}")


# --- the official client ----------------------------------------------------------------------------------------


@asynccontextmanager
async def talking(*script: Scripted | CallProblem) -> AsyncGenerator[tuple["anthropic.AsyncAnthropic", Api]]:
    import anthropic

    async with (
        serving(AnthropicMessages(), *script) as api,
        anthropic.AsyncAnthropic(
            base_url=api.base_url,
            api_key="k",
            max_retries=0,
            # Certificates take 20 ms to load, and there are none.
            http_client=anthropic.DefaultAsyncHttpxClient(verify=False),
            _strict_response_validation=True,
        ) as client,
    ):
        yield client, api


def blocks(message: Any) -> list[tuple[str, Any]]:
    return [
        (block.type, getattr(block, "thinking", None) or getattr(block, "text", None) or getattr(block, "input", None))
        for block in message.content
    ]


SAID = [("thinking", " hm\n\nyes\n"), ("text", "Adding."), ("tool_use", {"a": 1}), ("tool_use", {"a": 2})]


async def test_the_official_client_takes_a_whole_answer() -> None:
    async with talking(says(WHOLE)) as (client, api):
        answer = await client.messages.create(model="claude-x", max_tokens=9, messages=[GO], tools=[ADD])
    assert blocks(answer) == SAID
    assert (answer.stop_reason, answer.model) == ("tool_use", "claude-x")
    assert (answer.usage.input_tokens, answer.usage.cache_read_input_tokens, answer.usage.output_tokens) == (8, 3, 7)
    assert api.last.messages == [user("go")]


STREAMED = (
    Delta(reasoning=" hm"),
    Delta(reasoning="\n\nyes\n"),
    Delta(text="Add"),
    Delta(text="ing."),
    Delta(tools=(ToolPiece(0, id="call_1", name="add"),)),
    Delta(tools=(ToolPiece(0, '{"a"'), ToolPiece(0, ":1}"), ToolPiece(1, '{ "a":', "call_2", "add"))),
    Delta(tools=(ToolPiece(1, " 2 }"),)),
)
MIXED = (
    *STREAMED[:4],
    Delta(tools=(ToolPiece(0, '{"a"', "call_1", "add"), ToolPiece(1, '{ "a":', "call_2", "add"))),
    Delta(tools=(ToolPiece(1, " 2 }"), ToolPiece(0, ":1}"))),
)


@pytest.mark.parametrize(
    "deltas",
    [STREAMED, MIXED, (), STREAMED[:1], STREAMED[:3], STREAMED[:6]],
    ids=["all", "mixed", "none", "thought", "words", "tool"],
)
async def test_the_official_client_takes_a_stream(deltas: tuple[Delta, ...]) -> None:
    async with talking(says(WHOLE, *deltas), says(WHOLE, *deltas)) as (client, _):
        async with client.messages.stream(model="m", max_tokens=9, messages=[GO], tools=[ADD]) as stream:
            answer = await stream.get_final_message()
        raw = await client.messages.create(model="m", max_tokens=9, messages=[GO], tools=[ADD], stream=True)
        kinds = [event.type async for event in raw]
    assert blocks(answer) == SAID
    assert answer.stop_reason == "tool_use"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (8, 7)
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    steps = [kind for kind in kinds if kind in ("content_block_start", "content_block_stop")]
    assert steps == ["content_block_start", "content_block_stop"] * 4


async def test_words_are_streamed_as_they_come() -> None:
    dialect = AnthropicMessages()
    events = dialect.events(dialect.read(body(stream=True)), "1")
    assert b"message_start" in events.begin()
    assert b'"text":"Add"' in events.delta(Delta(text="Add"))
    assert b'"text":"ing."' in events.delta(Delta(text="ing."))
    assert b"ping" in events.delta(Delta(tools=(ToolPiece(0, '{"a"', "c", "add"),)))


async def test_arguments_that_are_no_json_reach_the_agent_as_text() -> None:
    broken = assistant("", ToolRequest(id="c", name="add", arguments='{"a": '))
    pieces = Delta(tools=(ToolPiece(0, '{"a": ', "c", "add"),))
    async with (
        talking(says(broken, pieces, finish_reason="length")) as (client, _),
        client.messages.stream(model="m", max_tokens=9, messages=[GO]) as stream,
    ):
        answer = await stream.get_final_message()
    assert blocks(answer) == [("tool_use", {"INVALID_JSON": '{"a": '})]
    assert answer.stop_reason == "max_tokens"


async def test_a_stream_that_breaks_off_raises_in_the_client() -> None:
    import anthropic

    broken = says(assistant("hi"), Delta(text="h"), breaks=CallProblem("failed", 502, "gone"))
    async with talking(broken) as (client, _):
        with pytest.raises(anthropic.APIStatusError, match="gone"):
            async with client.messages.stream(model="m", max_tokens=9, messages=[GO]) as stream:
                await stream.get_final_message()


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (CallProblem("invalid", 400, "no"), "BadRequestError"),
        (CallProblem("context", 400, "4 tokens"), "BadRequestError"),
        (CallProblem("unauthorized", 401, "who"), "AuthenticationError"),
        (CallProblem("limit", 403, "enough", "turn_limit"), "PermissionDeniedError"),
        (CallProblem("invalid", 404, "where"), "NotFoundError"),
        (CallProblem("too_large", 413, "big"), "RequestTooLargeError"),
        (CallProblem("busy", 429, "wait"), "RateLimitError"),
        (CallProblem("failed", 502, "gone"), "InternalServerError"),
    ],
)
async def test_a_problem_raises_the_clients_own_error(problem: CallProblem, error: str) -> None:
    import anthropic

    own: type[anthropic.APIStatusError] = getattr(anthropic, error)
    async with talking(problem) as (client, _):
        with pytest.raises(own, match=problem.message) as raised:
            await client.messages.create(model="m", max_tokens=9, messages=[GO])
    told: Any = raised.value.body
    assert told["type"] == "error" and told["error"]["type"]
