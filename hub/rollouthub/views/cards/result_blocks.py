"""What a tool gave as blocks: tables and fields where it is JSON, diffs, text as it stands, and media."""

from collections.abc import Iterator, Sequence
from typing import cast

from mcp_types import AudioContent, CallToolResult, EmbeddedResource, ImageContent, TextContent, TextResourceContents
from pydantic import JsonValue

from rollouthub.views.cards.argument_blocks import LINE_CHARACTERS, as_json, as_line, is_diff, object_blocks, parsed
from rollouthub.views.cards.blocks import Block, CodeBlock, DiffBlock, PlainBlock, TableBlock
from rollouthub.views.cards.card_text import CardText

MOST_BLOCKS = 100
"""Most parts of one result."""
MOST_ROWS, MOST_COLUMNS, CELL_CHARACTERS = 100, 8, 60
"""Most rows, columns, and characters in a cell, of a result that is shown as a table."""


def result_blocks(result: CallToolResult, tool: str, shown: CardText) -> tuple[Block, ...]:
    """The parts of a result."""
    blocks: list[Block] = []
    texts: list[str] = []
    for part in result.content[:MOST_BLOCKS]:
        match part:
            case TextContent():
                texts.append(part.text)
            case ImageContent() | AudioContent():
                blocks.append(shown.media(part.mime_type, part.data))
            case EmbeddedResource():
                resource = part.resource
                is_text = isinstance(resource, TextResourceContents)
                texts.append(f"[{resource.uri}: {resource.mime_type or ('text' if is_text else 'bytes')}]")
                texts += [resource.text] if is_text else []
            case _:
                texts.append(f"[a link to {part.uri}]")
    if left := len(result.content) - MOST_BLOCKS:
        texts += [f"… {left:,} more parts"] if left > 0 else []
    if not texts and result.structured_content is not None:
        texts.append(as_json(result.structured_content))
    return (*text_blocks("\n".join(texts), tool, shown), *blocks)


def text_blocks(text: str, tool: str, shown: CardText) -> tuple[Block, ...]:
    """A text that a tool gave."""
    if not text.strip():
        return ()
    found = parsed(text)
    if isinstance(found, dict) and found:
        return object_blocks(cast(dict[str, JsonValue], found), tool, shown)
    if isinstance(found, list) and (table := _table(cast(list[JsonValue], found), shown)) is not None:
        return (table,)
    if found:
        cut, left = shown(as_json(found))
        return (CodeBlock(cut, "json", "", left),)
    cut, left = shown(text.rstrip("\n"))
    return (DiffBlock(cut, "", left),) if is_diff(text) else (PlainBlock(cut, left),)


def _table(values: Sequence[JsonValue], shown: CardText) -> TableBlock | None:
    """Rows with common names; None if the values are anything else."""
    if len(values) < 2 or not all(isinstance(value, dict) for value in values):
        return None
    rows = cast(Sequence[dict[str, JsonValue]], values)
    titles = list(dict.fromkeys(name for row in rows[:MOST_ROWS] for name in row))
    if not 0 < len(titles) <= MOST_COLUMNS or max(map(len, titles)) > CELL_CHARACTERS:
        return None
    cells = [tuple(_cells(row, titles)) for row in rows[:MOST_ROWS]]
    if any(len(cell) > CELL_CHARACTERS for row in cells for cell in row):
        return None
    shown_rows = tuple(tuple(map(shown.line, row)) for row in cells)
    return TableBlock(tuple(map(shown.name, titles)), shown_rows, max(0, len(values) - MOST_ROWS))


def _cells(row: dict[str, JsonValue], titles: Sequence[str]) -> Iterator[str]:
    for title in titles:
        value = row.get(title, "")
        yield value if isinstance(value, str) else as_line(value)[: LINE_CHARACTERS + 1]
