"""Lays out the rows of a section for a width."""

from collections.abc import Callable

from rich.text import Text

from rollouthub_tui.widgets.rollout.document import (
    ROW_GAP,
    ROW_HEAD,
    ROW_MORE,
    ROW_TEXT,
    ROW_TITLE,
    Piece,
    Row,
    Section,
)
from rollouthub_tui.widgets.rollout.row_wrap import SLACK, wrap

UNWRAPPED = 4000
"""Cells at which even unwrapped lines are broken."""
_RULED = 3
"""Cells from a piece's rule to its text."""
_TITLE_ROW: Row = (ROW_TITLE, -1, 0, 0)


def lay_out(section: Section, width: int, is_open: bool, is_piece_open: Callable[[Piece], bool]) -> list[Row]:
    """The rows of a section with the present folding."""
    rows = [_TITLE_ROW]
    if not is_open:
        return rows
    for place, piece in enumerate(section.pieces):
        most = None if piece.folded_rows is None or is_piece_open(piece) else piece.folded_rows
        spans, end = wrap(piece.text, width - piece.indent, most)
        if piece.head is not None:
            is_long = end < len(piece.text)
            if piece.folded_rows is not None and most is None:
                is_long = len(spans) > piece.folded_rows + SLACK
            rows.append((ROW_HEAD, place, 0, int(is_long)))
        if piece.head is not None and not piece.text:
            continue
        rows += [(ROW_TEXT, place, start, stop) for start, stop in spans]
        if end < len(piece.text):
            rows.append((ROW_MORE, place, end, len(piece.text)))
    rows.append((ROW_GAP, -1, 0, 0))
    return rows


def draw(section: Section, row: Row, width: int, is_open: bool, is_piece_open: Callable[[Piece], bool]) -> Text:
    """Draw one row."""
    kind, place, start, end = row
    if kind == ROW_TITLE:
        mark = "" if not section.folds else "▾ " if is_open else "▸ "
        return Text.assemble((mark, "bold"), section.title(width - len(mark), is_open))
    if kind == ROW_GAP:
        return Text("")
    piece = section.pieces[place]
    if kind == ROW_HEAD:
        assert piece.head is not None
        mark = "  " if not end else "▾ " if is_piece_open(piece) else "▸ "
        return Text.assemble(_rule(piece, 2), (mark, "dim"), piece.head)
    indent = _rule(piece, 0)
    if kind == ROW_MORE:
        lines = piece.text.count("\n", start, end)
        left = f"{lines:,} more lines" if lines > 1 else f"{end - start:,} more characters"
        return Text.assemble(indent, (f"… {left}", "italic dim"))
    return Text.assemble(indent, piece.row(start, end))


def _rule(piece: Piece, less: int) -> Text:
    """What stands before a row of a piece: blanks, and its rule if it has one."""
    width = max(0, piece.indent - less)
    if not piece.rule or piece.indent < _RULED:
        return Text(" " * width)
    before = piece.indent - _RULED
    return Text.assemble(" " * before, ("▎", piece.rule), " " * max(0, width - before - 1))
