"""Where tokens end in a text: exact, or not told."""

import pytest

from rollouthub import Message, Turn
from rollouthub.engine.placed_rewards import with_token_spans
from rollouthub.models.text_ends import text_ends
from rollouthub.score import Score, SpanReward
from rollouthub.values import Int32s
from tests.yardstick import least_seconds

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


def test_a_megabyte_is_read_in_a_time_that_grows_with_it() -> None:
    text = "é a" * 350_000
    pieces = [character.encode() for character in text]
    assert least_seconds(lambda: text_ends(pieces, Message(role="assistant", content=text)), 0.8) < 0.8


def test_hundreds_of_spans_are_looked_up_in_a_long_turn() -> None:
    turn = Turn(
        index=0,
        messages=(),
        response=Message(role="assistant", content="x" * 250_000),
        output_text_ends=Int32s(range(1, 250_001)),
    )
    spans = tuple(SpanReward(turn=0, start=at, end=at + 9, reward=1.0, unit="character") for at in range(512))
    score = Score(reward=1.0, span_rewards=spans)
    assert least_seconds(lambda: with_token_spans([turn], score), 0.2) < 0.2
