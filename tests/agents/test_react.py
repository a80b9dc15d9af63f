"""The ReAct loop reads actions out of words."""

import pytest

from rollouthub_agents.react import parse_action


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('Thought: add\nAction: add\nAction Input: {"step": 2}', "add", '{"step": 2}'),
        ('Action: add\nAction Input: {"a": {"b": [1]}}\nObservation: made up', "add", '{"a": {"b": [1]}}'),
        ('Action: add\nAction Input: ```json\n{"step": 1}\n```', "add", '{"step": 1}'),
        ("Action: look\n", "look", "{}"),
        ("Action: add\nAction Input: two\nmore", "add", "two"),
        ("action: add", None, None),
        ("Final Answer: 3\nAction: add", None, None),
        ("just words", None, None),
    ],
)
def test_actions_are_parsed(text: str, name: str | None, arguments: str | None) -> None:
    request = parse_action(text, 1)
    assert (request and request.name, request and request.arguments) == (name, arguments)


def test_deeply_nested_input_is_passed_on_as_text() -> None:
    request = parse_action("Action: add\nAction Input: " + "[" * 100_000, 1)
    assert request is not None
    assert request.arguments.startswith("[[[")
