"""Wraps lines to a width in cells, keeping the marks on their pieces."""

from collections.abc import Iterable

from rich.cells import get_character_cell_size

from rollouthub_tui.widgets.pair.difference import Piece


class _Sizes(dict[str, int]):
    """A cache of the widths of characters, since looking them up takes ten times as long."""

    def __missing__(self, character: str) -> int:
        size = self[character] = get_character_cell_size(character)
        return size


_SIZES = _Sizes()


def height_of(line: str | None, width: int) -> int:
    """Number of screen lines that a line takes, if no character is wider than the screen."""
    if not line or 2 * len(line) <= width:
        return 1
    if line.isascii():
        return -(-len(line) // width)
    height, used, sizes = 1, 0, _SIZES
    for character in line:
        size = sizes[character]
        used += size
        if used > width:
            height += 1
            used = size
    return height


def wrapped(pieces: Iterable[Piece], width: int) -> list[list[Piece]]:
    """The screen lines for the pieces of one line."""
    lines: list[list[Piece]] = [[]]
    used = 0
    for text, differs in pieces:
        start = 0
        while start < len(text):
            stop, cells = _fitting(text, start, width - used)
            if stop > start:
                lines[-1].append((text[start:stop], differs))
                used += cells
                start = stop
            if start < len(text):
                lines.append([])
                used = 0
    return lines


def _fitting(text: str, start: int, room: int) -> tuple[int, int]:
    """Position up to which a text fits into this many cells, and the cells it takes."""
    if text.isascii():
        stop = min(len(text), start + room)
        return stop, stop - start
    cells, sizes = 0, _SIZES
    for place in range(start, len(text)):
        size = sizes[text[place]]
        if cells + size > room:
            return place, cells
        cells += size
    return len(text), cells
