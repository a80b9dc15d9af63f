"""What a trainer's policy said, of the text that a trainer has."""

import time

import pytest

from rollouthub.trainers.openrlhf import answer_of
from rollouthub.trainers.policy_answer import without_end_marks
from rollouthub.trainers.vlm_r1 import answer_of as tagged


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("It is 4. <|im_end|>\n<|endoftext|>", "It is 4."),
        ("It is 4.</s>", "It is 4."),
        ("It is 4. ", "It is 4. "),
        ("a < b > c", "a < b > c"),
        ("<|im_end|> It is 4", "<|im_end|> It is 4"),
        ("<eos>", ""),
        ("", ""),
    ],
)
def test_marks_at_the_end_are_cut_and_nothing_else_is(text: str, said: str) -> None:
    assert without_end_marks(text) == said


@pytest.mark.parametrize("junk", [" " * 100_000 + "x", "<|a|> " * 20_000 + "x", "<|a|>" * 20_000, "<answer>" * 20_000])
def test_an_answer_that_is_nothing_but_marks_or_white_space_is_read_at_once(junk: str) -> None:
    began = time.process_time()
    without_end_marks(junk)
    answer_of(f"P{junk}", "P")
    tagged(junk)
    assert time.process_time() - began < 1  # letter by letter; it was the square of them
