"""Wraps lines to a width in cells between words, keeping the marks on their pieces."""

from collections.abc import Iterable, Iterator

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
    return sum(1 for _ in _stops(line, width))


def wrapped(pieces: Iterable[Piece], width: int) -> list[list[Piece]]:
    """The screen lines for the pieces of one line: broken after a blank; within a word that is wider than the screen.

    A blank at the end of a screen line may stand beside it, where nothing is drawn.
    """
    pieces = list(pieces)
    lines: list[list[Piece]] = []
    place = begun = used = 0
    for stop in _stops("".join(text for text, _ in pieces), width):
        lines.append([])
        while place < len(pieces) and begun < stop:
            text, differs = pieces[place]
            part = text[used : used + stop - begun]
            if part:
                lines[-1].append((part, differs))
            begun, used = begun + len(part), used + len(part)
            if used == len(text):
                place, used = place + 1, 0
    return lines or [[]]


def _stops(text: str, width: int) -> Iterator[int]:
    """The positions at which the screen lines of a text end."""
    start, is_ascii = 0, text.isascii()
    while True:
        stop = min(len(text), start + width) if is_ascii else _fitting(text, start, width)
        if stop < len(text):
            if text[stop] == " ":
                stop += 1  # beside the line
            elif (blank := text.rfind(" ", start, stop)) > start and not text[start:blank].isspace():
                stop = blank + 1
        yield stop
        if stop >= len(text):
            return
        start = stop


def _fitting(text: str, start: int, room: int) -> int:
    """Position up to which a text fits into this many cells."""
    cells, sizes = 0, _SIZES
    for place in range(start, len(text)):
        cells += sizes[text[place]]
        if cells > room:
            return max(place, start + 1)
    return len(text)
