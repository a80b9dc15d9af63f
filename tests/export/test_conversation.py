"""A rollout as messages: the longest chain of a fork, calls as objects, pictures as placeholders."""

import json
from typing import Any

import pytest

from rollouthub import Message, ToolRequest
from rollouthub.export.conversation import (
    BrokenConversation,
    chain_segment,
    chat_message,
    longest_chain,
    parsed_arguments,
    same_words,
    tool_schemas,
)
from tests.export.kept import TOOLS, shown
from tests.export.made import forked, rollout, turn


def test_of_a_fork_the_longest_chain_is_taken_and_of_equals_the_latest() -> None:
    longer = rollout(turn(0, [1], [2]), turn(1, [1, 2], [3]), turn(2, [1, 9], [4], parent=0), turn(3, [1, 9, 4], [5]))
    assert [each.index for each in longest_chain(longer)] == [0, 2, 3]
    equal = rollout(turn(0, [1], [2]), turn(1, [1, 2], [3]), turn(2, [1, 9], [4], parent=0))
    assert [each.index for each in longest_chain(equal)] == [0, 2]


def test_the_tokens_of_a_chain_are_the_row_that_ends_with_it() -> None:
    record = forked()  # the third turn's prompt was written anew: what was said before is prompt there
    chain = longest_chain(record)
    assert [each.index for each in chain] == [0, 1, 2]
    row = chain_segment(record, chain)
    assert (row.token_ids.tolist(), row.loss_mask.tolist()) == ([1, 2, 9, 7], [0, 0, 0, 1])


def test_each_seat_has_a_chain_of_its_own() -> None:
    record = rollout(
        turn(0, [1], [2]),
        turn(1, [5], [6], parent=None, agent="critic"),
        turn(2, [1, 2], [3], parent=0),
        turn(3, [5, 6], [7], parent=1, agent="critic"),
        turn(4, [5, 6, 7], [8], parent=3, agent="critic"),
    )
    assert [each.index for each in longest_chain(record)] == [0, 2]
    assert [each.index for each in longest_chain(record, "critic")] == [1, 3, 4]
    assert longest_chain(record, "nobody") == ()


def test_a_turn_that_follows_none_there_is_not_put_right() -> None:
    with pytest.raises(BrokenConversation, match="turn 1 follows turn 7"):
        longest_chain(rollout(turn(0, [1], [2]), turn(1, [1, 2], [3], parent=7)))


def test_arguments_are_an_object_where_the_model_wrote_one_and_its_text_else() -> None:
    said = Message(
        role="assistant",
        reasoning="hm",
        tool_requests=(
            ToolRequest(id="a", name="add", arguments='{"x": [1, {"y": null}]}'),
            ToolRequest(id="b", name="add", arguments='{"x": '),
        ),
    )
    chat = chat_message(said)
    assert (chat["content"], chat["reasoning_content"]) == ("", "hm")
    assert [call["function"]["arguments"] for call in chat["tool_calls"]] == [{"x": [1, {"y": None}]}, '{"x": ']
    for text in ("[1]", "NaN", '{"x": NaN}', '{"x": -1e999}', '{"x": "\\ud800"}', '{"\\udfff": 1}', "[" * 100_000):
        assert parsed_arguments(ToolRequest(id="", name="", arguments=text)) is None
    whole = ToolRequest(id="", name="", arguments='{"x": "\\ud83d\\ude00"}')
    assert parsed_arguments(whole) == {"x": "\N{GRINNING FACE}"}


def test_a_picture_is_a_placeholder_in_its_place() -> None:
    assert chat_message(shown())["content"] == [{"type": "text", "text": "What is this?"}, {"type": "image"}]


def test_the_names_that_calls_were_given_do_not_count() -> None:
    def call(name: str, arguments: str = "{}") -> Message:
        return Message(role="assistant", tool_requests=(ToolRequest(id=name, name="add", arguments=arguments),))

    assert same_words(call("a"), call("b"))
    assert not same_words(call("a"), call("a", '{"x": 1}'))


def test_tools_are_json_text_in_openai_s_form() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    function = {"name": "calculate", "description": "Adds.", "parameters": schema}
    assert json.loads(tool_schemas(TOOLS)) == [{"type": "function", "function": function}]
