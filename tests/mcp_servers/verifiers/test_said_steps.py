"""Steps of single calls as the messages they were part of."""

from dataclasses import dataclass

import pytest

from rollouthub_servers.foreign.said_steps import shown, taken


@dataclass(frozen=True)
class Call:
    """A call of the library's."""

    name: str
    arguments: str = "{}"
    id: str = "c"


@dataclass(frozen=True)
class Said:
    """A message of the library's."""

    content: object = None
    tool_calls: tuple[Call, ...] = ()
    role: str = "assistant"
    secret: str = "canary"


STEPS = [Said(tool_calls=(Call("a"),)), Said(tool_calls=(Call("b", '{"x": 1}'),)), Said("Done.")]


@pytest.mark.parametrize(
    ("at", "content", "calls", "count"),
    [
        (0, "", [("a", "{}"), ("b", '{"x":1}')], 2),
        (0, "", [("b", '{"x": 1}'), ("a", "{ }")], 2),
        (0, "", [("a", "{}")], 1),
        (0, "", [("a", "{}"), ("a", "{}")], 1),
        (0, "", [("never", "{}")], 0),
        (0, "", [("a", "not json")], 0),
        (0, "Done.", [], 0),
        (2, "Done.", [], 1),
        (2, "Something else.", [], 0),
        (2, "Done.", [("a", "{}")], 0),
        (3, "Done.", [], 0),
    ],
)
def test_a_message_has_the_steps_of_its_own_calls_and_no_others(
    at: int, content: str, calls: list[tuple[str, str]], count: int
) -> None:
    made = [{"id": "x", "name": name, "arguments": arguments} for name, arguments in calls]
    assert taken(STEPS, at, {"content": content, "tool_calls": made}) == count


def test_a_message_is_shown_by_its_role_words_pictures_and_calls_alone() -> None:
    parts = [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    message = Said([*parts, {"type": "input_audio", "input_audio": {"data": "canary"}}], (Call("a"),))
    assert shown(message) == {
        "role": "assistant",
        "content": [{"text": "Look:"}, {"url": "data:image/png;base64,AA"}, {"text": "[input_audio]"}],
        "tool_calls": [{"id": "c", "name": "a", "arguments": "{}"}],
    }
