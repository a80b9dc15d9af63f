"""Lines cut to a width of cells, in pieces that keep what is said of them."""

from collections.abc import Iterable

from rich.cells import get_character_cell_size

from rollouthub_tui.widgets.pair.difference import Piece


class _Sizes(dict[str, int]):
    """The cells of characters: a tenth of what asking anew takes, for a million of them."""

    def __missing__(self, character: str) -> int:
        size = self[character] = get_character_cell_size(character)
        return size


_SIZES = _Sizes()


def height_of(line: str | None, width: int) -> int:
    """How many lines of the screen a line takes, where no character is wider than they are."""
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
    """The lines of the screen that pieces of one line take."""
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
    """Up to where a text fits into so many cells, and how many it takes."""
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
