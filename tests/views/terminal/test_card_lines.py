"""Cards as lines of a terminal."""

import pytest

from rollouthub.views.cards.blocks import Block, CodeBlock, FieldsBlock, PlainBlock, ProseBlock, in_one_line
from rollouthub.views.terminal.card_lines import aligned


def test_columns_of_a_table_are_aligned_by_what_characters_take_on_the_screen() -> None:
    assert list(aligned((("name", "n"), ("日本", "1"), ("a", "22")))) == ["name  n", "日本  1", "a     22"]


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (FieldsBlock((("a", "1"), ("b", "2"))), "a: 1, b: 2"),
        (FieldsBlock((("a", "1"),), left=1), None),
        (PlainBlock("ls\n"), "ls"),
        (PlainBlock("ls\ncd"), None),
        (PlainBlock("12345678901"), None),
        (CodeBlock("ls", "bash"), None),
        (ProseBlock("ls"), None),
    ],
)
def test_only_what_is_short_and_whole_stands_beside_its_call(block: Block, line: str | None) -> None:
    assert in_one_line(block, 10) == line
