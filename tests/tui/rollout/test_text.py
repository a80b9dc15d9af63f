"""Text on its way to the screen: what may be drawn, where it breaks, how it is styled, what is found in it."""

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from rollouthub_tui.widgets.rollout.document import Piece, Section
from rollouthub_tui.widgets.rollout.drawable_text import drawn, drawn_line
from rollouthub_tui.widgets.rollout.highlights import json_styles, markdown_styles
from rollouthub_tui.widgets.rollout.row_wrap import wrap
from rollouthub_tui.widgets.rollout.section_layout import lay_out
from rollouthub_tui.widgets.rollout.text_search import Matches, pattern_of
from rollouthub_tui.widgets.rollout.token_heatmap import heat

RUDE = (
    "\x1b]52;c;cm0=\x07a\x1b[31mb\u202ec\u200d\u00add\tz\x9be\u0301\u0302\u0303\u0304\r\nf\x00\u2028g\ufe0f\U000e0041漢"
)


def test_nothing_that_drives_a_terminal_or_hides_is_drawn() -> None:
    text = drawn(RUDE)
    assert [line.replace(" ", "") for line in text.split("\n")] == ["abcdz\u0301\u0302\u0303", "fg漢"]
    assert drawn_line("a\n  b\x1b[2J" + "c" * 500, 6) == "a bcc…"
    assert drawn("\tx") == "    x"


@given(st.text(max_size=200), st.integers(2, 30))
@example("漢" * 20, 3)
@example("a" * 100 + " b", 10)
@example("a b c " * 20 + "\n\n", 7)
def test_rows_fit_and_lose_nothing_but_spaces_and_ends_of_lines(text: str, width: int) -> None:
    text = drawn(text)
    rows, end = wrap(text, width)
    assert end == len(text)
    assert all(cell_len(text[start:stop]) <= width for start, stop in rows)
    kept = "".join(text[start:stop] for start, stop in rows)
    assert kept.replace(" ", "") == text.replace("\n", "").replace(" ", "")
    few, stopped = wrap(text, width, 3)
    assert few == rows[: len(few)]
    assert stopped == end if len(few) == len(rows) else len(few) == 3


def test_markdown_is_styled_where_it_stands_and_code_by_its_language() -> None:
    text = "# Head\n- a **bold** `code`\n```python\ndef f():\n    return 1\n```\n> said\n```\nopen **not bold**"
    styles = {text[start:end]: style for start, end, style in markdown_styles(text)}
    assert styles["# Head"] == "bold underline"
    assert (styles["-"], styles["**bold**"], styles["`code`"]) == ("bold cyan", "bold", "cyan")
    assert "blue" in styles["def"]
    assert "**not bold**" not in styles
    places = sorted(markdown_styles(text))
    assert all(one[1] <= other[0] for one, other in pairwise(places))
    assert markdown_styles("**x** " * 10_000) == []
    line = '  "key": ["text", -1.5, true],'
    assert [line[start:end] for start, end, _ in json_styles(line)] == ['"key"', '"text"', "-1.5", "true"]


@given(st.text(alphabet='`~# *_-\n"\\ab1漢[]{}:', max_size=300))
def test_any_text_is_styled_in_order_and_within_itself(text: str) -> None:
    for styles in (sorted(markdown_styles(text)), json_styles(text)):
        assert all(0 <= start < end <= len(text) for start, end, _ in styles)
        assert all(one[1] <= other[0] for one, other in pairwise(styles))


def section(*pieces: Piece) -> Section:
    """A section of these."""
    return Section("key", lambda width, is_open: Text("title"), lambda: pieces)


def test_what_is_long_is_folded_and_says_how_much_is_left() -> None:
    lines = Piece("a", "\n".join(map(str, range(100))), head=Text("head"), folded_rows=20)
    row = Piece("b", "x" * 1_000_000, folded_rows=2)
    nearly = Piece("c", "\n".join("x" * 22), folded_rows=20)
    kinds = [kind for kind, *_ in lay_out(section(lines, row, nearly), 80, True, lambda piece: False)]
    assert kinds == [0, 1, *[2] * 20, 3, *[2] * 2, 3, *[2] * 22, 4]
    opened = lay_out(section(lines), 80, True, lambda piece: True)
    assert len(opened) == 103
    assert len(lay_out(section(lines), 80, False, lambda piece: True)) == 1


@pytest.mark.parametrize(
    ("pattern", "found"),
    [("ab", ["ab", "AB"]), ("AB", ["AB"]), ("a.?b$", ["ab"]), ("[", ["["]), ("(b|", []), (r"\d*", ["12"])],
)
def test_a_pattern_is_a_regular_expression_or_itself_and_capitals_count(pattern: str, found: list[str]) -> None:
    text = "AB [ 12\nab"
    matches = Matches.of(pattern_of(pattern), [section(Piece("x", text))])
    assert [text[match.start : match.end] for match in matches.found] == (
        sorted(found, key=lambda each: text.find(each)) if found else []
    )


def test_matches_of_a_row_are_its_own_parts_of_them() -> None:
    matches = Matches.of(pattern_of("bcd|f"), [section(Piece("x", "abcdef")), section(Piece("y", "f"))])
    assert matches.within(0, 0, 0, 3) == [(1, 3)]
    assert matches.within(0, 0, 3, 6) == [(0, 1), (2, 3)]
    assert matches.within(1, 0, 0, 1) == [(0, 1)]
    assert matches.within(0, 1, 0, 5) == []


def test_an_expression_that_takes_forever_is_given_up_and_says_that_there_may_be_more() -> None:
    text = "a" * 60 + "b"
    matches = Matches.of(pattern_of("(a|aa)+$"), [section(Piece("x", text))])
    assert (matches.found, matches.is_all) == ([], False)


def test_the_less_likely_a_token_the_higher_and_another_colour() -> None:
    signs = [heat(math.log(p))[0] for p in (1.0, 0.95, 0.8, 0.6, 0.3, 0.15, 0.05, 0.001)]
    assert signs == list("▁▂▃▄▅▆▇█")
    assert heat(0.0)[1] != heat(-9.0)[1]
    assert heat(None)[0] == heat(math.nan)[0] == "?"
    assert heat(math.inf)[0] == "▁"
    assert heat(-math.inf)[0] == "█"
