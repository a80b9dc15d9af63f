"""Where tokens end in a text: exact, or not told."""

import pytest

from rollouthub import Message
from rollouthub.models.text_ends import text_ends

THOUGHT = [b"<think>", b"4?", b"</think>", b"4", b"2", b"<end>"]


@pytest.mark.parametrize(
    ("pieces", "message", "ends"),
    [
        ([b"a", b"b", b"<end>"], Message(role="assistant", content="ab"), [1, 2, 2]),
        (["é".encode()[:1], "é".encode()[1:], b"x"], Message(role="assistant", content="éx"), [0, 1, 2]),
        (THOUGHT, Message(role="assistant", content="42", reasoning="4?"), [0, 0, 0, 1, 2, 2]),
        ([b"4", b" 4"], Message(role="assistant", content="4"), None),
        ([b"\xff"], Message(role="assistant", content="a"), None),
        ([b"a"], Message(role="assistant", content="b"), None),
        ([b"42"], Message(role="assistant", content="42", reasoning="no such thought"), None),
    ],
)
def test_a_text_that_is_not_found_at_one_place_alone_is_not_guessed(
    pieces: list[bytes], message: Message, ends: list[int] | None
) -> None:
    found = text_ends(pieces, message)
    assert (None if found is None else found.tolist()) == ends
