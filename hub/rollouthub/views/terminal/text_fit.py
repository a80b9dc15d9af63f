"""Making text fit: cut by cells, and broken between parts rather than within them."""

import re
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from rollouthub.text import plain_name

NARROWEST = 40
"""Cells; every drawing fits this width and any above."""
LABEL, GAP = "bright_black", "  "
_JOINERS = re.compile("[\u200c\u200d\ufe00-\ufe0f\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
"""What makes one character of several, or another one of it: terminals disagree how many cells that takes."""


def apart(words: str) -> str:
    """A text in which every character takes the cells that it takes alone."""
    return _JOINERS.sub("", words)


def cut(words: str, width: int) -> str:
    """A text of somebody else's on one line of at most so many cells; what is left out is shown by `…`."""
    words = apart(plain_name(words))
    if cell_len(words) <= width:
        return words
    return set_cell_size(words, max(0, width - 1)).rstrip() + "…" if width > 0 else ""


def column(words: str, width: int, *, right: bool = False) -> str:
    """The same, filled up to exactly that width."""
    words = cut(words, width)
    space = " " * (width - cell_len(words))
    return space + words if right else words + space


def fact(label: str, value: str, style: str = "bold") -> Text:
    """A figure behind its name."""
    return Text.assemble((f"{label} ", LABEL), (value, style))


def flow(parts: Sequence[Text], width: int, most: int = 99, gap: str = GAP) -> Text:
    """Parts side by side, in at most so many lines; how many of the last ones were left out is said."""
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
    """Say how many parts there was no room for; those that are in the way of saying so are among them."""
    while len(row) > 1 and len(f"{gap}+{left_out} more") > room:
        room += row.pop().cell_len + len(gap)
        left_out += 1
    row.append(Text.assemble((f"+{left_out} more", LABEL)))


def stack(lines: Sequence[Text]) -> Text:
    """Lines below each other."""
    return Text("\n").join(lines)
