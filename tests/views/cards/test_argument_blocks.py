"""Arguments and results of tools as blocks: code is code, whatever JSON it came in."""

import json

import pytest
from mcp_types import CallToolResult, ImageContent, TextContent

from rollouthub.views.cards.argument_blocks import argument_blocks
from rollouthub.views.cards.blocks import CodeBlock, DiffBlock, FieldsBlock, MediaBlock, PlainBlock, TableBlock
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.result_blocks import result_blocks, text_blocks

SHOWN = CardText()
PATCH = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.mark.parametrize(
    ("tool", "name", "value", "language"),
    [
        ("anything", "code", "x = 1\ny = 2", "python"),
        ("anything", "code", "x = 1", "python"),
        ("bash", "command", "ls -l", "bash"),
        ("bash", "script", "ls -l\ncd /", "bash"),
        ("db", "query", "SELECT 1", "sql"),
        ("run", "stuff", "import os\nprint(os)", "python"),
        ("notes", "text", "dear all,\nhello", ""),
    ],
)
def test_code_is_a_block_with_its_language(tool: str, name: str, value: str, language: str) -> None:
    (block,) = argument_blocks({name: value}, tool, SHOWN)
    assert block == CodeBlock(value, language, name)


def test_the_language_of_a_file_is_that_of_its_ending() -> None:
    blocks = argument_blocks({"path": "src/main.rs", "content": "fn main() {\n}\n"}, "write_file", SHOWN)
    assert blocks == (FieldsBlock((("path", "src/main.rs"),)), CodeBlock("fn main() {\n}", "rust", "content"))


def test_a_patch_is_a_diff() -> None:
    assert argument_blocks({"patch": PATCH}, "apply", SHOWN) == (DiffBlock(PATCH.rstrip("\n"), "patch"),)
    assert text_blocks(PATCH, "git_diff", SHOWN) == (DiffBlock(PATCH.rstrip("\n")),)


def test_what_is_short_stands_beside_its_name() -> None:
    blocks = argument_blocks({"query": "best pizza", "n": 3, "deep": {"a": [1]}, "on": True}, "search", SHOWN)
    fields = (("query", "best pizza"), ("n", "3"), ("deep", '{"a": [1]}'), ("on", "true"))
    assert blocks == (FieldsBlock(fields),)


def test_text_that_is_no_object_is_shown_as_it_is_and_json_text_is_read() -> None:
    assert argument_blocks("{broken", "x", SHOWN) == (PlainBlock("{broken"),)
    assert argument_blocks('{"code": "a\\nb"}', "x", SHOWN) == (CodeBlock("a\nb", "python", "code"),)
    assert argument_blocks({}, "x", SHOWN) == argument_blocks("", "x", SHOWN) == ()


def test_a_result_of_like_rows_is_a_table() -> None:
    rows = [{"name": "a", "n": 1}, {"name": "b", "n": None}]
    assert text_blocks(json.dumps(rows), "db", SHOWN) == (TableBlock(("name", "n"), (("a", "1"), ("b", "null"))),)
    (block,) = text_blocks(json.dumps([{"text": "long " * 40}, {"text": ""}]), "db", SHOWN)
    assert isinstance(block, CodeBlock)


def test_a_result_has_its_text_and_its_pictures() -> None:
    picture = ImageContent(data="sha256:aa", mime_type="image/png")
    result = CallToolResult(content=[TextContent(text="seen\n"), picture])
    assert result_blocks(result, "look", SHOWN) == (PlainBlock("seen"), MediaBlock("image/png", "sha256:aa"))


def test_what_is_nested_too_deeply_is_said() -> None:
    deep: object = "x"
    for _ in range(20_000):
        deep = [deep]
    (block,) = argument_blocks({"a": deep}, "x", SHOWN)  # pyright: ignore[reportArgumentType]  # as a model may send
    assert "too deeply" in repr(block)
    assert text_blocks("[" * 100_000, "x", SHOWN) == (PlainBlock("[" * 100_000),)


def test_what_is_long_is_cut_and_says_by_how_much() -> None:
    short = CardText(most=10)
    assert argument_blocks({"code": "x" * 25 + "\n"}, "x", short) == (CodeBlock("x" * 10, "python", "code", 15),)
    (fields,) = argument_blocks({f"a{n}": n for n in range(300)}, "x", short)
    assert isinstance(fields, FieldsBlock)
    assert (len(fields.fields), fields.left) == (200, 100)
