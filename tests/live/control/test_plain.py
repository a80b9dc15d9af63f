"""Text made plain."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub.text import NAME_CHARACTERS, plain, plain_name

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


@given(RUDE)
def test_nothing_is_left_that_could_drive_a_terminal(text: str) -> None:
    left = plain(text, 10_000)
    assert not any((ord(mark) < 32 and mark not in "\n\t") or 127 <= ord(mark) < 160 for mark in left)
    left.encode()


@given(RUDE, st.integers(1, 50))
def test_text_is_never_longer_than_asked_for_but_for_saying_so(text: str, most: int) -> None:
    assert len(plain(text, most)) <= most + 40


def test_a_name_is_one_short_line() -> None:
    name = plain_name("a\nname\x1b[31m " + "x" * 1000)
    assert name.startswith("a name x")
    assert len(name) < NAME_CHARACTERS + 40


def test_a_flood_of_escapes_takes_no_time_at_all() -> None:
    plain("\x1b[" * 5_000_000, 20_000)
    plain("\x1b]" + "x" * 5_000_000, 20_000)
