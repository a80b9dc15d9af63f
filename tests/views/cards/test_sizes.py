"""Time and size of cards: what is long is folded or cut, and no text takes more than time in proportion to it."""

import time
from collections.abc import Callable
from functools import partial

import pytest

from rollouthub import Message
from rollouthub.views.cards.block_html import FOLDED_LINES, block_html, pre_html
from rollouthub.views.cards.blocks import CodeBlock, PlainBlock, ProseBlock
from rollouthub.views.cards.code_html import LONGEST as LONGEST_CODE
from rollouthub.views.cards.code_html import code_html
from rollouthub.views.cards.prose_html import LONGEST, prose_html
from tests.store.records import conversation, record
from tests.views.cards.shown_pages import Harmless, content_of, saying

NASTY = (
    "[",
    "![",
    "[[]](",
    "[a](<",
    "*a ",
    "*_a_",
    "**a*",
    "`a``",
    "<a ",
    "> ",
    "- a\n ",
    "|a|b|\n|-|-|\n",
    "~~a ",
    "&#x",
    "\\",
    "_-a_",
    "```\n",
    "1. ",
    "# a\n",
    "<!--",
    '"',
    "/*",
    "'''",
    "''\"",
    "a" * 50,
    " \n",
    "\t",
    "[x]: y\n",
)


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of the quickest of three."""

    def once() -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    return min(once() for _ in range(3))


def python_html(text: str) -> str:
    """Coloured Python."""
    return code_html(text, "python")


def python_block(text: str) -> CodeBlock:
    """A block of Python."""
    return CodeBlock(text, "python")


@pytest.mark.parametrize("unit", NASTY)
def test_time_grows_with_the_text_and_no_faster(unit: str) -> None:
    prose_html("*warm*")
    made: list[tuple[Callable[[str], str], int]] = [(prose_html, LONGEST), (python_html, LONGEST_CODE)]
    for make, most in made:
        small, large = ((unit * most)[: most // 8], (unit * most)[:most])
        took, takes = cpu(partial(make, small)), cpu(partial(make, large))
        # Eight times the text: a quadratic text takes 64 times as long.
        assert takes < 24 * took + 0.02, (unit, took, takes)


def test_a_text_too_long_for_markdown_is_shown_as_it_is() -> None:
    assert prose_html("*x*" * LONGEST) == f'<p class="text">{"*x*" * LONGEST}</p>'


def test_what_is_long_is_folded_and_says_by_how_much() -> None:
    text = "\n".join(f"line {n}" for n in range(100))
    made = Harmless(pre_html(text, 17))
    assert f"… {100 - FOLDED_LINES} more lines" in made.text
    assert "… 17 more characters" in made.text
    assert all(f"line {n}" in made.text for n in range(100))
    assert "details" not in pre_html("\n".join("short" for _ in range(FOLDED_LINES + 4)))
    assert "more characters" in pre_html("x" * 100_000)


def test_prose_is_folded_between_paragraphs_and_never_within_code() -> None:
    code = "```\n" + "\n\n".join(f"code {n}" for n in range(40)) + "\n```"
    made = block_html(ProseBlock("first\n\n" + code + "\n\n" + "last *one*\n\n" * 60))
    before, _, after = made.partition("<details")
    assert "code 39" in before
    assert "last <em>one</em>" in after
    Harmless(made)


@pytest.mark.parametrize("make", [ProseBlock, PlainBlock, python_block])
def test_a_huge_block_stays_proportional(make: Callable[[str], ProseBlock | PlainBlock | CodeBlock]) -> None:
    small, large = ("word *and* \n" * (n * 1000) for n in (1, 8))
    took, takes = cpu(lambda: block_html(make(small))), cpu(lambda: block_html(make(large)))
    assert takes < 24 * took + 0.05


def test_a_page_is_bounded_and_says_what_is_left_out() -> None:
    (first, _) = conversation(2)
    huge = first.model_copy(update={"response": Message(role="assistant", content="x" * 10**6)})
    turns = tuple(huge.model_copy(update={"index": n, "parent_turn": n - 1 if n else None}) for n in range(100))
    page = content_of(record("a-0", turns=turns))
    assert len(page) < 8_000_000
    assert "900,000 more characters" in page
    assert "more turns" in page


def test_a_page_of_many_texts_takes_little() -> None:
    rollout = saying("Some *words* with `code`.\n\n- and\n- more\n")
    content_of(rollout)
    assert cpu(lambda: content_of(rollout)) < 0.1


@pytest.mark.parametrize(("first", "begin"), [("", ""), ("> ", "> "), ("- ", "  ")])
def test_a_table_of_short_rows_and_many_columns_makes_no_page_of_empty_cells(first: str, begin: str) -> None:
    wide = f"{first}{'|a' * 300}|\n{begin}{'|-' * 300}|\n"
    text = (wide + f"{begin}|a\n" * LONGEST)[:LONGEST]
    assert len(prose_html(text)) < 10 * LONGEST
    assert "<table>" in prose_html(f"{first}|a|b|\n{begin}|-|-|\n" + f"{begin}|1|2|\n" * 900)


@pytest.mark.parametrize("unit", ["![", "[", "[[]", "![[]()", "[a][b"])
def test_a_text_of_opening_brackets_takes_little(unit: str) -> None:
    assert cpu(lambda: prose_html((unit * LONGEST)[:LONGEST])) < 0.05
    assert "<a " in prose_html("[a](https://example.org/)\n" * 900)
