"""Chunks of every server's habits come to the answer one body would have given."""

from typing import Any

import msgspec
import pytest

from rollouthub import ModelReply
from rollouthub.messages import ToolRequest
from rollouthub.models.direct.answer_bounds import BadAnswer
from rollouthub.models.direct.chunks import Assembly, parse_chunk
from rollouthub.models.direct.completion import as_reply
from tests.models.listening import Listener
from tests.models.servers import chunk

UNCOUNTABLE = b'{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 9223372036854775808}}'


def unpriced(prompt_tokens: int, output_tokens: int) -> float | None:
    return None


async def assembled(*chunks: dict[str, Any]) -> tuple[ModelReply, Listener]:
    """What chunks come to, and what a listener heard of them."""
    assembly, listener = Assembly(1), Listener()
    for each in chunks:
        if (delta := assembly.add(parse_chunk(msgspec.json.encode(each)))) is not None:
            await listener.stream.write(delta)
    if (rest := assembly.rest()) is not None:
        await listener.stream.write(rest)
    reply, _ = as_reply(assembly.answer(), turn=1, version_header=None, price=unpriced, retries=0)
    return reply, listener


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(pieces)})


ADD = ToolRequest(id="a", name="add", arguments='{"x":1}')
TWO = (ADD, ToolRequest(id="b", name="take", arguments="{}"))
HABITS: dict[str, tuple[tuple[dict[str, Any], ...], tuple[ToolRequest, ...]]] = {
    "name first": (
        (
            calls({"index": 0, "id": "a", "function": {"name": "add"}}),
            calls({"index": 0, "function": {"arguments": '{"x"'}}),
            calls({"index": 0, "function": {"arguments": ":1}"}}),
        ),
        (ADD,),
    ),
    "whole": ((calls({"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"x":1}'}}),), (ADD,)),
    "interleaved": (
        (
            calls(
                {"index": 0, "id": "a", "function": {"name": "add"}},
                {"index": 1, "id": "b", "function": {"name": "take"}},
            ),
            calls({"index": 1, "function": {"arguments": "{"}}, {"index": 0, "function": {"arguments": '{"x"'}}),
            calls({"index": 0, "function": {"arguments": ":1}"}}, {"index": 1, "function": {"arguments": "}"}}),
        ),
        TWO,
    ),
    "name last": (
        (
            calls({"index": 0, "id": "a"}),
            calls({"index": 0, "function": {"arguments": '{"x"'}}),
            calls({"index": 0, "function": {"name": "add", "arguments": ":1}"}}),
        ),
        (ADD,),
    ),
    "name each time": (
        (
            calls({"index": 0, "id": "a", "function": {"name": "add", "arguments": '{"x"'}}),
            calls({"index": 0, "id": "a", "function": {"name": "add", "arguments": ":1}"}}),
        ),
        (ADD,),
    ),
    "no numbers": (
        (
            calls({"id": "a", "function": {"name": "add", "arguments": '{"x"'}}),
            calls({"function": {"arguments": ":1}"}}),
            calls({"id": "b", "function": {"name": "take", "arguments": "{}"}}),
        ),
        TWO,
    ),
    "numbers from one": (
        (
            calls({"index": 1, "id": "a", "function": {"name": "add", "arguments": '{"x":1}'}}),
            calls({"index": 2, "id": "b", "function": {"name": "take", "arguments": "{}"}}),
        ),
        TWO,
    ),
    "arguments as an object": (
        (calls({"index": 0, "id": "a", "function": {"name": "add", "arguments": {"x": 1}}}),),
        (ADD,),
    ),
    "no id": (
        (calls({"index": 0, "function": {"name": "add", "arguments": ""}}),),
        (ToolRequest(id="call-1-0", name="add", arguments=""),),
    ),
    "no name": (
        (calls({"index": 0, "id": "a", "function": {"arguments": "{}"}}),),
        (ToolRequest(id="a", name="", arguments="{}"),),
    ),
    "nothing": ((calls({"index": 0, "id": "a"}),), (ToolRequest(id="a", name="", arguments=""),)),
}


@pytest.mark.parametrize(("chunks", "requests"), HABITS.values(), ids=list(HABITS))
async def test_tool_requests_are_put_together(
    chunks: tuple[dict[str, Any], ...], requests: tuple[ToolRequest, ...]
) -> None:
    reply, listener = await assembled(*chunks, chunk(finish_reason="tool_calls"))
    assert reply.message.tool_requests == requests
    assert listener.message == reply.message
    assert (reply.finish_reason, reply.message.text) == ("tool_calls", "")


async def test_reasoning_under_either_name_is_kept() -> None:
    for name in ("reasoning", "reasoning_content"):
        reply, listener = await assembled(
            chunk({"role": "assistant", "content": "", name: None}),
            chunk({name: "h"}),
            chunk({name: "m"}),
            chunk({"content": "yes"}, "stop"),
        )
        assert (reply.message.reasoning, reply.message.text) == ("hm", "yes")
        assert listener.message == reply.message


async def test_a_refusal_stands_where_there_are_no_words() -> None:
    reply, listener = await assembled(chunk({"refusal": "I will "}), chunk({"refusal": "not."}, "stop"))
    assert reply.message.text == "I will not."
    assert listener.message == reply.message


async def test_usage_is_the_last_that_was_told_wherever_it_stands() -> None:
    reply, _ = await assembled(
        {**chunk({"content": "a"}), "usage": {"prompt_tokens": 3, "completion_tokens": 1}},
        {**chunk({"content": "b"}, "stop"), "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        {"choices": [], "usage": None},
    )
    assert (reply.usage.prompt_tokens, reply.usage.output_tokens) == (3, 2)


async def test_other_answers_than_the_first_are_passed_over() -> None:
    second = chunk({"content": "no"})
    second["choices"][0]["index"] = 1
    reply, listener = await assembled(chunk({"content": "yes"}), second, {"choices": None})
    assert reply.message.text == listener.message.text == "yes"


async def test_token_ids_with_a_hole_are_dropped() -> None:
    assembly = Assembly(1)
    for token in (5, 6):
        assembly.add(parse_chunk(msgspec.json.encode(chunk({"content": "x"}, token_ids=[token]))))
    assembly.add(parse_chunk(b'{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 3}}'))
    answer = assembly.answer()
    assert assembly.has_lost_ids
    assert (answer.choices[0].token_ids, answer.choices[0].logprobs) == (None, None)


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ({"error": {"message": "engine dead", "code": 500}}, "broke off the answer: engine dead"),
        ({"error": "engine dead"}, "broke off the answer: engine dead"),
        ({"object": "error", "message": "engine dead", "code": 400}, "broke off the answer: engine dead"),
        (chunk(finish_reason="abort"), "broke off"),
    ],
)
async def test_a_failure_in_the_stream_is_no_answer(event: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadAnswer, match=problem):
        await assembled(chunk({"content": "x"}), event)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"choices": 7}', b'{"choices": [{"delta": 7}]}', b"\xff", UNCOUNTABLE]
)
def test_what_is_no_chunk_is_refused(data: bytes) -> None:
    with pytest.raises(BadAnswer, match="no chunk"):
        parse_chunk(data)


def test_an_end_without_a_beginning_is_no_answer() -> None:
    with pytest.raises(BadAnswer, match="no choices"):
        Assembly(1).answer()
