"""Tool calls are read from a model's text as it wrote them; what is broken stays words, and nothing is ever raised."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import Tool

from rollouthub.errors import ConfigError
from rollouthub.models.tokens.tool_text import TOOL_PARSERS, Spoken, find_tool_parser

ADD = Tool(
    name="add",
    input_schema={"type": "object", "properties": {"a": {"type": "integer"}, "note": {"type": "string"}}},
)
LLAMA = '{"name": "add", "parameters": {}}'
HERMES = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


def calls(spoken: Spoken) -> list[tuple[str, str]]:
    return [(request.name, request.arguments) for request in spoken.requests]


@pytest.mark.parametrize(
    ("parser", "text", "words", "called"),
    [
        ("hermes", HERMES, "", [("add", '{"a": 1}')]),
        ("hermes", f"I add. {HERMES}", "I add. ", [("add", '{"a": 1}')]),
        ("hermes", f"{HERMES}\n{HERMES}", "", [("add", '{"a": 1}')] * 2),
        ("hermes", HERMES.removesuffix("</tool_call>"), "", [("add", '{"a": 1}')]),
        # What no tool takes is for the tool's own refusal, which the model reads.
        ("hermes", HERMES.replace('{"a": 1}', '"one"'), "", [("add", '"one"')]),
        ("hermes", HERMES.replace('{"a": 1}', '{"a": "\\ud800"}'), "", [("add", '{"a": "\\ud800"}')]),
        ("qwen3_xml", "<tool_call>\n<function=add>\n</function>\n</tool_call>", "", [("add", "{}")]),
        (
            "qwen3-xml",
            "So:<tool_call>\n<function=add>\n<parameter=a>\n17\n</parameter>\n<parameter=note>\n17\n</parameter>\n"
            "</function>\n</tool_call>",
            "So:",
            [("add", '{"a": 17, "note": "17"}')],
        ),
        ("llama3_json", '{"name": "add", "parameters": {"a": 1}}', "", [("add", '{"a": 1}')]),
        (
            "llama3_json",
            '{"name": "add", "parameters": {}}; {"name": "b", "parameters": {}}',
            "",
            [("add", "{}"), ("b", "{}")],
        ),
    ],
)
def test_calls_are_read_with_the_words_before_them(
    parser: str, text: str, words: str, called: list[tuple[str, str]]
) -> None:
    spoken = find_tool_parser(parser)(text, [ADD])
    assert (spoken.words, calls(spoken)) == (words, called)


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("hermes", "the answer is 17"),
        ("hermes", '<tool_call>\n{"name": "add", "arguments": {"a": 1}'),
        ("hermes", f'{HERMES}<tool_call>{{"name": 3}}</tool_call>'),
        ("hermes", '<tool_call>{"name": "add"}</tool_call>'),
        ("hermes", '<tool_call>{"name": "\\ud800", "arguments": {}}</tool_call>'),
        ("hermes", f"<tool_call>{'[' * 100_000}</tool_call>"),
        ("qwen3_xml", "<tool_call><parameter=a>1</parameter></tool_call>"),
        ("llama3_json", 'I say {"name": "add", "parameters": {}}'),
        ("llama3_json", '{"name": "add", "parameters": {}} and so on'),
        ("llama3_json", "17"),
        ("none", HERMES),
    ],
)
def test_what_is_no_call_stays_words_letter_by_letter(parser: str, text: str) -> None:
    assert find_tool_parser(parser)(text, [ADD]) == Spoken(text)


pieces = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "<function=add>", "</function>", "<parameter=a>", "</parameter>", LLAMA),
        *('{"name": "add"', ', "arguments": {"a": ', "}", "1", "NaN", "1e999", "\ud7ff", ";", "\n", "words", "\\"),
    ]
)


@settings(max_examples=40, deadline=None)
@given(text=st.lists(pieces, max_size=12).map("".join), parser=st.sampled_from(sorted(TOOL_PARSERS)))
def test_nothing_a_model_writes_is_an_error(text: str, parser: str) -> None:
    spoken = find_tool_parser(parser)(text, [ADD])
    spoken.words.encode()
    for request in spoken.requests:
        json.loads(request.arguments)
        request.model_dump_json()


def test_a_parser_nobody_knows_is_named_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"'mistral'.*hermes"):
        find_tool_parser("mistral")
