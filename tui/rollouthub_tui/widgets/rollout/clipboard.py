"""The content of a view of a rollout as text for the clipboard."""

from rollouthub_tui.widgets.rollout.document_view import DocumentView
from rollouthub_tui.widgets.rollout.record_document import record_text
from rollouthub_tui.widgets.rollout.record_reader import ReadRecord
from rollouthub_tui.widgets.rollout.rows_view import RowsView

_MOST_ROWS = 20_000
_TITLE_WIDTH = 200


def copied(view: RowsView, record: ReadRecord | None) -> str:
    """The whole content: a document with its folded parts, the record as JSON."""
    if view.id == "record" and record is not None:
        return record_text(record.rollout, record.prompt_lengths)
    if not isinstance(view, DocumentView):
        return "\n".join(view.row_text(row).plain.rstrip() for row in range(min(view.row_count, _MOST_ROWS)))
    lines: list[str] = []
    for section in view.sections:
        lines.append(section.title(_TITLE_WIDTH, True).plain)
        for piece in section.pieces:
            if piece.head is not None:
                lines.append(f"  {piece.head.plain}")
            if piece.text:
                lines += [f"    {line}" for line in piece.text.split("\n")]
        lines.append("")
    return "\n".join(lines)
