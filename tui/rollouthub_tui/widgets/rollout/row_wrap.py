"""Breaks text into rows of a width, as far as they are needed."""

from collections.abc import Iterator

from rich.cells import cell_len, get_character_cell_size

Span = tuple[int, int]
"""The range of a row in the text."""

SLACK = 2
"""Rows beyond the limit that are still shown, since folding so few would gain nothing."""


def wrap(text: str, width: int, most: int | None = None) -> tuple[list[Span], int]:
    """Break a text into rows of `width` cells; return the rows, and where in the text the last one ends.

    Of more than `most + SLACK` rows, the first `most` are returned.
    """
    width = max(2, width)
    rows: list[Span] = []
    limit = None if most is None else most + SLACK
    is_ascii = text.isascii()
    at, size = 0, len(text)
    while at <= size:
        end = text.find("\n", at)
        end = size if end < 0 else end
        if end - at <= width and (is_ascii or cell_len(text[at:end]) <= width):
            rows.append((at, end))
        else:
            for row in _narrow(text, at, end, width) if is_ascii else _any(text, at, end, width):
                rows.append(row)
                if limit is not None and len(rows) > limit:
                    break
        if limit is not None and len(rows) > limit:
            assert most is not None
            del rows[most:]
            return rows, rows[-1][1] if rows else 0
        at = end + 1
    return rows, size


def _narrow(text: str, at: int, end: int, width: int) -> Iterator[Span]:
    """The rows of one line whose characters are all one cell wide."""
    while end - at > width:
        cut = text.rfind(" ", at + width // 2, at + width + 1)
        if cut < 0:
            yield at, at + width
            at += width
        else:
            yield at, cut
            at = cut + 1
    yield at, end


def _any(text: str, at: int, end: int, width: int) -> Iterator[Span]:
    """The rows of one line with characters of any widths."""
    cells, space, place = 0, -1, at
    while place < end:
        letter = text[place]
        size = get_character_cell_size(letter)
        if cells + size > width and place > at:
            if space > at:
                yield at, space
                at = place = space + 1
            else:
                yield at, place
                at = place
            cells, space = 0, -1
            continue
        if letter == " " and cells > width // 2:
            space = place
        cells += size
        place += 1
    yield at, end
