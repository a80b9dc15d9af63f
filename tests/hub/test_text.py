"""Text of others made harmless: what is taken out, what stays, how long it gets, and how long that takes."""

import json
import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub.text import NAME_CHARACTERS, escaped, one_line, plain, plain_name, printable
from tests.yardstick import least_seconds

FUNCTIONS: list[Callable[[str], str]] = [plain, printable, one_line, plain_name, escaped]
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FLOODS = {
    "words": "a word, " * 125_000,
    "a coloured log": "\x1b[32mINFO\x1b[0m a line of a log\n" * 25_000,
    "Chinese": "中文\n" * 140_000,
    "escapes": "\x1b[" * 500_000,
    "a sequence without an end": "\x1b[" + "0" * 1_000_000,
    "a title without an end": "\x1b]" + "x" * 1_000_000,
    "eight-bit controls": "\x9b0" * 330_000,
    "a tower of accents": "a" + "\u0301" * 500_000,
    "blanks": " \n" * 500_000,
}
RUDE = st.text(st.one_of(st.sampled_from("\x1b\x9b\x07[]0;m\\P_^X\u202e\u2066\r\n\t"), st.characters()))


@pytest.mark.parametrize(
    ("rude", "left"),
    [
        ("\x1b[31;1mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;payload", ""),
        ("\x1bPdevice\x1b\\text", "text"),
        ("\x9b2Jgone", "gone"),
        ("\x1bcreset", "reset"),
        ("over\rwritten\b\b", "overwritten"),
        ("user\u202etxt.exe", "usertxt.exe"),
        ("a\nb\tc", "a\nb\tc"),
        ("half \ud800 pair", "half  pair"),
        ("ünïcødé 日本 🙂", "ünïcødé 日本 🙂"),
    ],
)
def test_escapes_and_controls_are_gone_and_words_stay(rude: str, left: str) -> None:
    assert plain(rude, 100) == left


@pytest.mark.parametrize("function", FUNCTIONS)
@given(text=RUDE)
def test_nothing_is_left_that_drives_a_terminal_or_turns_text_around(function: Callable[[str], str], text: str) -> None:
    left = function(text)
    assert not HARMFUL.search(left)
    left.encode()


@pytest.mark.parametrize("function", FUNCTIONS)
@given(text=RUDE)
def test_what_is_harmless_stays_as_it_is(function: Callable[[str], str], text: str) -> None:
    once = function(text)
    assert function(once) == once


@given(RUDE)
def test_every_printable_character_is_drawn(text: str) -> None:
    assert all(letter in "\n\t" or letter.isprintable() for letter in printable(text))
    assert one_line(text).isprintable()


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_escaped_json_means_the_same(text: str) -> None:
    assert json.loads(escaped(json.dumps(text, ensure_ascii=False))) == text


def test_characters_that_hide_or_pile_up_are_not_drawn() -> None:
    assert (
        printable("a\u200db\u00adc\u3164d e\u0301\u0302\u0303\u0304 \ue000")
        == "abcd e\u0301\u0302\u0303 \N{REPLACEMENT CHARACTER}"
    )
    assert printable("a\u00a0b\u3000c") == "a b c"


@given(RUDE, st.integers(1, 50))
def test_text_is_never_longer_than_asked_for_but_for_saying_so(text: str, most: int) -> None:
    assert len(plain(text, most)) <= most + 40


@given(RUDE, st.integers(1, 50))
def test_a_line_is_never_longer_than_asked_for_and_says_that_it_was_cut(text: str, most: int) -> None:
    line = one_line(text, most)
    assert len(line) <= most
    assert line.endswith("…") or line == " ".join(printable(text).split())


def test_a_name_is_one_short_line() -> None:
    name = plain_name("a\nname\x1b[31m " + "x" * 1000)
    assert name.startswith("a name x")
    assert len(name) == NAME_CHARACTERS


@pytest.mark.parametrize("text", FLOODS.values(), ids=FLOODS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_megabyte_takes_milliseconds(function: Callable[[str], str], text: str) -> None:
    most = 0.05 if "word" in text or "log" in text else 0.5  # floods take longer, but no longer than in proportion
    assert least_seconds(partial(function, text), most) < most


def test_no_more_is_looked_at_than_is_shown() -> None:
    plain("\x1b[" * 5_000_000, 20_000)
    one_line("\x1b]" + "x" * 5_000_000)
