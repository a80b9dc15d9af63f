"""Two sequences held against each other: what is said to be the same is, in bounded time."""

import time

from hypothesis import given
from hypothesis import strategies as st

from rollouthub_tui.widgets.pair.alignment import align
from rollouthub_tui.widgets.pair.difference import difference_of, words_apart
from rollouthub_tui.widgets.pair.line_wrap import height_of, wrapped
from rollouthub_tui.widgets.pair.plain_transcript import TurnLines

words = st.lists(st.sampled_from("abcdefg"), max_size=30)
rude = st.lists(
    st.sampled_from(["a", "b", " ", "中", "e\u0301", "👩\u200d🔬", "\u0301", "é", "ﷺ", "❤\ufe0f"]), max_size=60
).map("".join)


@given(words, words)
def test_stretches_cover_both_and_same_ones_are_the_same(first: list[str], second: list[str]) -> None:
    at = other_at = 0
    for is_same, low, high, other_low, other_high in align(first, second):
        assert (low, other_low) == (at, other_at)
        assert (high, other_high) != (low, other_low)
        if is_same:
            assert first[low:high] == second[other_low:other_high]
        at, other_at = high, other_high
    assert (at, other_at) == (len(first), len(second))


def test_what_is_alike_in_the_middle_is_found() -> None:
    first, second = ["x", "a", "b", "c", "d"], ["a", "b", "y", "c", "d", "z"]
    assert [stretch[0] for stretch in align(first, second)] == [False, True, False, True, False]


def test_ten_thousand_elements_of_two_kinds_take_no_time() -> None:
    first, second = [f"{place * 3 % 7}" for place in range(10_000)], [f"{place * 5 % 7}" for place in range(10_000)]
    began = time.process_time()
    align(first, second)
    assert time.process_time() - began < 2


@given(rude, rude)
def test_words_that_differ_are_those_and_nothing_is_lost(left: str, right: str) -> None:
    one, other = words_apart(left, right)
    assert ("".join(text for text, _ in one), "".join(text for text, _ in other)) == (left, right)
    same = "".join(text for text, differs in one if not differs)
    assert same == "".join(text for text, differs in other if not differs)


@given(rude, st.integers(min_value=8, max_value=30))
def test_a_line_takes_as_many_lines_as_were_reckoned_for_it(line: str, width: int) -> None:
    made = wrapped([(line[:9], True), (line[9:], False)], width)
    assert "".join(text for parts in made for text, _ in parts) == line
    assert height_of(line, width) == len(made)


def test_lines_are_broken_between_words() -> None:
    made = [
        "".join(text for text, _ in parts) for parts in wrapped([("the last thing you say: 東京 stays", False)], 12)
    ]
    assert made == ["the last ", "thing you ", "say: 東京 ", "stays"]
    assert ["".join(text for text, _ in parts) for parts in wrapped([("abcdefgh", True)], 3)] == ["abc", "def", "gh"]


def test_turns_are_matched_before_lines() -> None:
    first = [TurnLines(0, ("── turn", "a", "b")), TurnLines(1, ("── turn", "c"))]
    second = [TurnLines(0, ("── turn", "a", "B")), TurnLines(1, ("── turn", "new")), TurnLines(2, ("── turn", "c"))]
    made = difference_of(first, second)
    rows = [(made.marks[row], made.left(row), made.right(row)) for row in range(len(made))]
    assert rows == [
        (" ", "── turn", "── turn"),
        (" ", "a", "a"),
        ("~", "b", "B"),
        ("+", None, "── turn"),
        ("+", None, "new"),
        (" ", "── turn", "── turn"),
        (" ", "c", "c"),
    ]
    assert made.changes == [2]
