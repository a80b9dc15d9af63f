"""The Responses dialect: what it reads, and answers that the official client and its stream take."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent

from rollouthub.gateway.model_api.dialect import CallProblem
from rollouthub.gateway.model_api.responses_dialect import Responses
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, Media, Message, ToolPiece, ToolRequest, assistant, system, user
from tests.gateway.model_api.api import Api, Scripted, says, serving

ADD: Any = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}
PATCH: Any = {"type": "custom", "name": "patch", "description": "Apply a patch."}
SPACE: Any = {"type": "namespace", "name": "mcp__env", "description": "", "tools": [{**ADD, "name": "shell"}]}
CALL = ToolRequest(id="call_1", name="add", arguments='{"a":1}')
OTHER = ToolRequest(id="call_2", name="add", arguments='{ "a": 2 }')
WHOLE = assistant("Adding.", CALL, OTHER).model_copy(update={"reasoning": " hm\n\nyes\n"})
READER = Responses()


def body(given: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "any", "input": given, "store": False, **fields}).encode()


def answered(message: Message, asked: bytes, number: str = "1") -> list[dict[str, Any]]:
    """The items of an answer, as an agent keeps them."""
    reply = ModelReply(message=message, finish_reason="stop")
    whole = READER.whole(READER.read(asked), reply, number)
    return Response.model_validate_json(whole).model_dump(mode="json", exclude_none=True)["output"]


# --- reading ----------------------------------------------------------------------------------------------------


def test_words_alone_are_a_user_message() -> None:
    asked = READER.read(body("hi", instructions="be brief", max_output_tokens=5, stream=True))
    assert list(asked.messages) == [system("be brief"), user("hi")]
    assert (asked.max_tokens, asked.is_stream, asked.model) == (5, True, "any")


def test_a_conversation_is_read_as_our_loop_would_send_it() -> None:
    given: list[Any] = [
        {"role": "developer", "content": "be brief"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "1+1, 1+2"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": " hm\n"}]},
        {
            "type": "message",
            "role": "assistant",
            "id": "m",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Adding.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}', "id": "fc_1"},
        {"type": "function_call", "call_id": "call_2", "name": "add", "arguments": '{ "a": 2 }'},
        {"type": "function_call_output", "call_id": "call_1", "output": "2"},
        {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "3"}]},
    ]
    assert list(READER.read(body(given, tools=[ADD])).messages) == [
        system("be brief"),
        user("1+1, 1+2"),
        assistant("Adding.", CALL, OTHER).model_copy(update={"reasoning": " hm\n"}),
        Message(role="tool", content="2", tool_call_id="call_1"),
        Message(role="tool", content="3", tool_call_id="call_2"),
    ]


@pytest.mark.parametrize(
    "message",
    [
        WHOLE,
        assistant("four"),
        assistant("", CALL),
        assistant("").model_copy(update={"reasoning": "hm"}),
        assistant("", ToolRequest(id="c", name="patch", arguments='{ "content" : "*** a\\nb" }')),
        assistant("", ToolRequest(id="c", name="patch", arguments="*** not wrapped")),
        assistant("", ToolRequest(id="c", name="mcp__env__shell", arguments="{ broken")),
    ],
)
@pytest.mark.parametrize("include", [[], ["reasoning.encrypted_content"]])
def test_an_answer_comes_back_as_the_model_wrote_it(message: Message, include: list[str]) -> None:
    fields: dict[str, Any] = {"tools": [ADD, PATCH, SPACE], "include": include}
    items = answered(message, body("go", **fields))
    if include:  # as agents do that keep no reasoning in the clear
        for item in items:
            if item["type"] == "reasoning":
                item["summary"] = []
    first, again, last = READER.read(
        body([{"role": "user", "content": "go"}, *items, *after(items)], **fields)
    ).messages
    assert (first, again) == (user("go"), message)
    assert last.role in ("user", "tool")


def after(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One thing said after an answer."""
    for item in items:
        if item["type"].endswith("_call"):
            return [{"type": item["type"] + "_output", "call_id": item["call_id"], "output": "ok"}]
    return [{"role": "user", "content": "and?"}]


def test_calls_of_one_conversation_do_not_reach_another() -> None:
    answered(assistant("", ToolRequest(id="call_9", name="add", arguments='{"secret":1}')), body("go", tools=[ADD]))
    other = READER.read(
        body([{"role": "user", "content": "go"}, {"type": "function_call_output", "call_id": "call_9", "output": "x"}])
    )
    assert [message.role for message in other.messages] == ["user", "tool"]


def test_tools_a_chat_model_cannot_have_are_left_out() -> None:
    tools = [ADD, PATCH, SPACE]
    hosted: list[Any] = [
        {"type": "web_search"},
        {"type": "web_search_preview"},
        {"type": "local_shell"},
        {"type": "file_search", "vector_store_ids": []},
        {"type": "mcp", "server_label": "x", "server_url": "http://x"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "image_generation"},
        {"type": "tool_search"},
        {"type": "of_tomorrow"},
    ]
    asked = READER.read(body("go", tools=[*hosted, *tools], tool_choice={"type": "web_search"}))
    assert [tool.name for tool in asked.tools] == ["add", "patch", "mcp__env__shell"]
    assert asked.tools[0].description is None
    assert asked.constraints == {}
    assert READER.read(body("go", tools=hosted)).tools == ()


def test_items_of_tools_nobody_has_here_are_read_past() -> None:
    given: list[Any] = [
        {"role": "user", "content": "go"},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
        {"type": "local_shell_call", "call_id": "x", "action": {}},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "compaction", "encrypted_content": "gAAAA"},
    ]
    assert list(READER.read(body(given)).messages) == [user("go")]


def test_what_shapes_the_answer_is_kept() -> None:
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    asked = READER.read(
        body(
            "go",
            tools=[ADD],
            tool_choice={"type": "function", "name": "add"},
            parallel_tool_calls=False,
            text={"format": schema, "verbosity": "low"},
            reasoning={"effort": "high", "summary": "auto"},
            temperature=0.1,
            truncation="auto",
        )
    )
    assert asked.constraints == {
        "tool_choice": {"type": "function", "function": {"name": "add"}},
        "parallel_tool_calls": False,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
    }


def test_pictures_are_kept_as_media() -> None:
    seen = {"type": "input_image", "image_url": "data:image/png;base64,cG5n"}
    shown = {"type": "function_call_output", "call_id": "c", "output": [seen]}
    asked = READER.read(body([{"role": "user", "content": [{"type": "input_text", "text": "see"}, seen]}, shown]))
    for message in asked.messages:
        assert isinstance(message.content[-1], Media)
        assert asked.media[message.content[-1].digest] == b"png"


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"type": "input_file", "file_id": "f"}, "keeps no files"),
        ({"type": "input_file", "file_url": "http://x/a.pdf"}, "fetches no addresses"),
        ({"type": "input_file", "filename": "a.png", "file_data": "data:image/png;base64,cG5n"}, "begins with"),
        ({"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,!"}, "not base64"),
        ({"type": "input_audio", "input_audio": {"data": "cG5n", "format": "midi"}}, "not known"),
        ({"type": "input_audio"}, "lacks its data"),
        ({"type": "input_image", "file_id": "f"}, "the hub keeps no files"),
        ({"type": "input_image", "image_url": "data:video/mp4;base64,cG5n"}, "no image"),
        ({"type": "of_tomorrow"}, "'of_tomorrow' is not understood"),
    ],
)
def test_files_are_refused_in_messages_and_in_results_of_tools(part: dict[str, Any], problem: str) -> None:
    for item in (
        {"role": "user", "content": [part]},
        {"type": "function_call_output", "call_id": "c", "output": [part]},
        {"type": "custom_tool_call_output", "call_id": "c", "output": [part]},
    ):
        with pytest.raises(ValueError, match=problem):
            READER.read(body([{"role": "user", "content": "go"}, item]))


def test_an_input_another_episode_wrote_under_the_same_id_is_not_taken_for_this_ones() -> None:
    wrote = assistant("", ToolRequest(id="call-0-0", name="patch", arguments='{"content":"x"}'))
    READER.whole(READER.read(body("go", tools=[PATCH]), b"mine"), ModelReply(message=wrote), "1")
    call = {"type": "custom_tool_call", "call_id": "call-0-0", "name": "patch", "input": "x"}
    again = body([{"role": "user", "content": "go"}, call], tools=[PATCH])
    told = [READER.read(again, scope).messages[1].tool_requests[0].arguments for scope in (b"mine", b"theirs")]
    assert told == ['{"content":"x"}', '{"content": "x"}']


@pytest.mark.parametrize(
    ("sent", "words_said"),
    [
        (b"{", "not JSON"),
        (b"{}", "not understood"),
        (body([]), "empty"),
        (body("x", previous_response_id="resp_1"), "previous_response_id"),
        (body("x", conversation="conv_1"), "conversation"),
        (body("x", background=True), "background"),
        (body("x", prompt={"id": "p"}), "prompt"),
        (body([{"type": "item_reference", "id": "msg_1"}]), r"input\[0\] refers"),
        (body([{"role": "user"}]), "lacks content"),
        (body([{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]), "input_file"),
        (body([{"role": "user", "content": [{"type": "input_image", "image_url": "http://x/y"}]}]), "not fetched"),
        (body([{"role": "wizard", "content": "x"}]), "wizard"),
        (body("x", tools=[ADD], tool_choice={"type": "allowed_tools", "tools": []}), "allowed_tools"),
        (body([{"type": "function_call", "call_id": "c", "name": 5, "arguments": {}}]), "not understood"),
    ],
)
def test_what_cannot_be_served_is_refused_in_words(sent: bytes, words_said: str) -> None:
    with pytest.raises(ValueError, match=words_said):
        READER.read(sent)


# --- the official client ----------------------------------------------------------------------------------------


@asynccontextmanager
async def talking(*script: Scripted | CallProblem) -> AsyncGenerator[tuple[openai.AsyncOpenAI, Api]]:
    async with (
        serving(Responses(), *script) as api,
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
    async with talking(says(WHOLE)) as (client, api):
        answer = await client.responses.create(model="gpt-x", input="1+1", tools=[ADD], store=False)
    assert [item.type for item in answer.output] == ["reasoning", "message", "function_call", "function_call"]
    assert (answer.status, answer.output_text, answer.model) == ("completed", "Adding.", "gpt-x")
    assert answer.usage is not None
    assert (answer.usage.total_tokens, answer.usage.input_tokens_details.cached_tokens) == (18, 3)
    assert api.last.messages == [user("1+1")]


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
    async with talking(says(WHOLE, *deltas)) as (client, _):
        stream = await client.responses.create(model="m", input="1+1", tools=[ADD], store=False, stream=True)
        events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    last = events[-1]
    assert last.type == "response.completed"
    assert [item.type for item in last.response.output] == ["reasoning", "message", "function_call", "function_call"]
    assert last.response.usage is not None and last.response.usage.input_tokens == 11
    check_items(events, last.response)


def check_items(events: list[ResponseStreamEvent], whole: Response) -> None:
    """Items come one after the other, their pieces make up what they say, and the whole answer says the same."""
    done_in = {"output_text": "text", "reasoning_summary_text": "text", "function_call_arguments": "arguments"}
    done_in["custom_tool_call_input"] = "input"
    is_open, done, pieces = False, list[Any](), ""
    for event in events:
        _, kind, *stage = event.type.split(".")
        fields: Any = event.to_dict()
        if kind == "output_item":
            assert is_open is (stage == ["done"]) and fields["output_index"] == len(done)
            is_open = not is_open
            if not is_open:
                done.append(fields["item"])
            pieces = ""
        elif kind in done_in:
            assert is_open
            if stage == ["delta"]:
                pieces += fields["delta"]
            else:
                assert pieces == fields[done_in[kind]]
    assert done == whole.to_dict()["output"]


async def test_the_clients_own_accumulation_reads_the_stream() -> None:
    async with (
        talking(says(WHOLE, *STREAMED)) as (client, _),
        client.responses.stream(model="m", input="1+1", store=False) as stream,
    ):
        async for _ in stream:
            pass
        answer = await stream.get_final_response()
    assert answer.output_text == "Adding."
    assert [item.arguments for item in answer.output if item.type == "function_call"] == ['{"a":1}', '{ "a": 2 }']


async def test_custom_tools_are_called_with_plain_input() -> None:
    call = ToolRequest(id="c", name="patch", arguments='{"content": "*** a"}')
    pieces = (Delta(tools=(ToolPiece(0, '{"content": ', "c", "patch"),)), Delta(tools=(ToolPiece(0, '"*** a"}'),)))
    async with talking(says(assistant("", call), *pieces)) as (client, _):
        stream = await client.responses.create(model="m", input="x", tools=[PATCH], stream=True)
        events = [event async for event in stream]
    last = events[-1]
    assert last.type == "response.completed"
    (item,) = last.response.output
    assert item.type == "custom_tool_call" and item.input == "*** a"
    check_items(events, last.response)


async def test_tools_of_a_namespace_are_called_by_both_names() -> None:
    call = ToolRequest(id="c", name="mcp__env__shell", arguments="{}")
    async with talking(says(assistant("", call))) as (client, _):
        answer = await client.responses.create(model="m", input="x", tools=[SPACE])
    (item,) = answer.output
    assert item.type == "function_call"
    assert (item.namespace, item.name) == ("mcp__env", "shell")


async def test_an_answer_that_was_cut_is_incomplete() -> None:
    async with talking(*[says(assistant("Ad"), finish_reason="length")] * 2) as (client, _):
        answer = await client.responses.create(model="m", input="x")
        stream = await client.responses.create(model="m", input="x", stream=True)
        last = [event async for event in stream][-1]
    assert answer.status == "incomplete" and answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert last.type == "response.incomplete"


async def test_an_empty_answer_is_a_message_without_words() -> None:
    async with talking(says(assistant(""))) as (client, _):
        answer = await client.responses.create(model="m", input="x")
    assert answer.output_text == "" and [item.type for item in answer.output] == ["message"]


async def test_a_stream_that_breaks_off_ends_as_failed() -> None:
    broken = says(assistant("hi"), Delta(text="h"), breaks=CallProblem("context", 400, "too long"))
    async with talking(broken) as (client, _):
        # The code is not in the client's list of them, and agents go by it.
        client._strict_response_validation = False  # pyright: ignore[reportPrivateUsage]
        stream = await client.responses.create(model="m", input="x", stream=True)
        last = [event.to_dict() async for event in stream][-1]
    assert last["type"] == "response.failed"
    failed: Any = last["response"]
    assert failed["error"] == {"code": "context_length_exceeded", "message": "too long"}


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (CallProblem("invalid", 400, "no"), openai.BadRequestError),
        (CallProblem("limit", 403, "enough", "turn_limit"), openai.PermissionDeniedError),
        (CallProblem("busy", 429, "wait"), openai.RateLimitError),
    ],
)
async def test_a_problem_raises_the_clients_own_error(problem: CallProblem, error: type[openai.APIStatusError]) -> None:
    async with talking(problem) as (client, _):
        with pytest.raises(error, match=problem.message):
            await client.responses.create(model="m", input="x")
