"""Whatever text there is, what is said of it can be read aloud, and drives nothing."""

import io
import os
import pty

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub_tui.text.command_input import Typed
from rollouthub_tui.text.output import Output
from rollouthub_tui.text.pages import Pages, in_pages
from rollouthub_tui.text.speakable_text import lasting, pace, sentence, spoken
from tests.tui.test_hostile import rude
from tests.tui.text.conftest import is_plain


@settings(max_examples=40)
@given(st.text() | rude)
def test_only_printable_text_and_newlines_are_written(text: str) -> None:
    out = io.StringIO()
    output = Output(out)
    output.say(text)
    output.ask(text)
    output.complain(text)
    assert is_plain(out.getvalue())


def test_what_draws_is_written_as_what_people_type() -> None:
    assert spoken("┌──┐\n│▁█│\n╰╱╲╯⠿⠀") == "+--+\n|##|\n+/\\+. "


def test_long_lines_go_on_below_and_words_stay() -> None:
    out = io.StringIO()
    Output(out).say("a" * 2500 + " ü 注文")
    lines = out.getvalue().splitlines()
    assert [len(line) for line in lines] == [1000, 1000, 505]
    assert lines[-1].endswith("ü 注文")


@pytest.mark.parametrize(
    ("drawing", "words"),
    [
        ("● scored 3  ✗ agent failures 1", "scored 3, agent failures 1"),
        ("! ended · failed · unscored", "ended, failed, unscored"),
        ("call look · 0.10 s  {}", "call look, 0.10 s, {}"),
        ("B − A −0.1: ▼ B is worse", "B minus A minus0.1: B is worse"),
        ("why? because = so", "why? because = so"),
    ],
)
def test_a_drawings_marks_are_left_out_where_words_say_the_same(drawing: str, words: str) -> None:
    assert sentence(drawing) == words


def test_times_and_speeds_are_words() -> None:
    assert [lasting(seconds) for seconds in (0.4, 59, 65, 93784)] == ["0 s", "59 s", "1 min 5 s", "1 d 2 h"]
    assert [pace(rate) for rate in (12.34, 0.5, 0.001)] == ["12.3 per second", "30.0 per minute", "3.6 per hour"]


def test_pages_end_where_nothing_is_left() -> None:
    pages = Pages(in_pages(str(number) for number in range(41)))
    assert [len(pages.turn()) for _ in range(3)] == [20, 20, 1]
    assert not pages.has_more
    assert list(Pages([["x"] * 50, [], ["y"]]).turn()) == ["x"] * 40, "a long turn has several pages"


async def test_what_is_typed_comes_without_the_sequences_of_keys() -> None:
    ours, theirs = pty.openpty()
    try:
        typed = Typed(theirs, Output(io.StringIO()))
        os.write(ours, b"er\x1b[Drors\x1b[A\n")
        with anyio.fail_after(5):
            assert await typed.interruption() == "errors"
        os.write(ours, b"\x04")
        with anyio.fail_after(5):
            assert await typed.answer("Really? ") is None
    finally:
        os.close(ours)
        os.close(theirs)
