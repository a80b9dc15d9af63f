"""Fits text into a width: cuts it at cells, and wraps lines only between parts."""

import re
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from rollouthub.text import plain_name

NARROWEST = 40
"""Width in cells that every drawing fits into."""
LABEL, GAP = "bright_black", "  "
_JOINERS = re.compile("[\u200c\u200d\ufe00-\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
"""Characters that join or modify others: terminals disagree on the width of the result."""


def apart(words: str) -> str:
    """The text without joining characters, so that its width is the sum of its characters' widths."""
    return _JOINERS.sub("", words)


def cut(words: str, width: int) -> str:
    """Put untrusted text on one line of at most `width` cells; `…` marks a cut."""
    words = apart(plain_name(words))
    if cell_len(words) <= width:
        return words
    return set_cell_size(words, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def column(words: str, width: int, *, right: bool = False) -> str:
    """Cut the text to `width` cells, and pad it with spaces to exactly that width."""
    words = cut(words, width)
    space = " " * (width - cell_len(words))
    return space + words if right else words + space


def fact(label: str, value: str, style: str = "bold") -> Text:
    """A label followed by its value."""
    return Text.assemble((f"{label} ", LABEL), (value, style))


def flow(parts: Sequence[Text], width: int, most: int = 99, gap: str = GAP) -> Text:
    """Lay parts out in at most `most` lines; if not all fit, the last part says how many were left out."""
    rows: list[list[Text]] = []
    room = 0
    for place, part in enumerate(parts):
        length = part.cell_len
        if rows and length + len(gap) <= room:
            rows[-1].append(part)
            room -= length + len(gap)
        elif len(rows) < most:
            rows.append([part])
            room = width - length
        else:
            _leave_out(rows[-1], len(parts) - place, room, gap)
            break
    lines = [Text(gap).join(row) for row in rows]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return stack(lines)


def _leave_out(row: list[Text], left_out: int, room: int, gap: str) -> None:
    """Add the number of parts left out to the last line, removing parts from it until there is room."""
    while len(row) > 1 and len(f"{gap}+{left_out} more") > room:
        room += row.pop().cell_len + len(gap)
        left_out += 1
    row.append(Text.assemble((f"+{left_out} more", LABEL)))


def stack(lines: Sequence[Text]) -> Text:
    """Join lines with line breaks."""
    return Text("\n").join(lines)
