"""A tool call as pieces: its arguments as code, diffs and fields, or as JSON."""

import json
from collections.abc import Iterator

from pydantic import JsonValue
from rich.text import Text

from rollouthub.statistics.amounts import seconds
from rollouthub.views.cards.argument_blocks import argument_blocks
from rollouthub.views.cards.blocks import Block, CodeBlock, DiffBlock, FieldsBlock
from rollouthub.views.cards.card_text import CardText, CutText
from rollouthub_tui.widgets.rollout.document import Piece
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line

RESULT_ROWS = 20
_INDENT = 6
_SHORT = 50
"""Most characters of arguments that stand beside the tool's name."""


def _whole(text: str, most: int) -> CutText:
    """Pieces cut and clean their texts themselves, when they are drawn."""
    return text, 0


_SHOWN = CardText(cut=_whole, name=lambda name: drawn_line(name, 80))


def call_pieces(
    name: str, tool: str, arguments: JsonValue, took: float | None, is_error: bool, *, raw: bool = False
) -> Iterator[Piece]:
    """The line of a tool call, with its arguments below it if they are long; `took` is None if it was not run.

    With `raw` they are shown as JSON.
    """
    head = Text.assemble(("call ", "dim"), (drawn_line(tool, 80), "bold yellow"))
    head.append(" · was not run" if took is None else f" · {seconds(took)}", "dim")
    if is_error:
        head.append(" · ", "dim").append("error", "bold red")
    if raw:
        yield from _raw_pieces(name, head, arguments)
        return
    blocks = list(argument_blocks(arguments, tool, _SHOWN))
    if blocks and (line := _line(blocks[0])) is not None:
        head.append("  ").append(line, "not bold")
        del blocks[0]
    # An empty text: the rows below have heads of their own.
    yield Piece(f"{name} arguments", head=head, indent=_INDENT)
    for place, block in enumerate(blocks):
        yield _piece(f"{name} argument {place}", block)


def _line(block: Block) -> str | None:
    """The block in one short line; None if it is longer."""
    if isinstance(block, FieldsBlock):
        text = ", ".join(f"{name}: {value}" for name, value in block.fields)
    elif isinstance(block, CodeBlock | DiffBlock) or block.kind != "plain":
        return None
    else:
        text = block.text
    return drawn_line(text) if len(text) <= _SHORT and "\n" not in text.strip() else None


def _piece(name: str, block: Block) -> Piece:
    match block:
        case CodeBlock():
            return Piece(
                name,
                block.text,
                head=_head(block.name, block.language),
                syntax="json" if block.language == "json" else "code",
                language=block.language,
                folded_rows=RESULT_ROWS,
                indent=_INDENT,
            )
        case DiffBlock():
            head = _head(block.name, "diff")
            return Piece(name, block.text, head=head, syntax="diff", folded_rows=RESULT_ROWS, indent=_INDENT)
        case FieldsBlock():
            lines = Text("\n").join(
                Text.assemble((f"{field}: ", "dim"), drawn_line(value, 400)) for field, value in block.fields
            )
            return Piece(name, lines, folded_rows=RESULT_ROWS, indent=_INDENT)
        case _:
            text = getattr(block, "text", "")
            return Piece(name, text, folded_rows=RESULT_ROWS, indent=_INDENT)


def _head(name: str, language: str) -> Text:
    return Text(" · ".join(part for part in (name, language) if part) or "arguments", style="dim")


def _raw_pieces(name: str, head: Text, arguments: JsonValue) -> Iterator[Piece]:
    text = arguments if isinstance(arguments, str) else pretty(arguments)
    is_short = len(text) <= _SHORT and "\n" not in text.strip()
    if is_short:
        head.append("  ").append(drawn_line(text), "not bold")
    yield Piece(
        f"{name} arguments",
        "" if is_short else text,
        head=head,
        syntax="json",
        folded_rows=RESULT_ROWS,
        indent=_INDENT,
    )


def pretty(value: JsonValue) -> str:
    """A value as JSON, on one line if it is short."""
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= _SHORT else json.dumps(value, ensure_ascii=False, indent=2)
