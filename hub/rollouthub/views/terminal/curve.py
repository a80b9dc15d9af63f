"""Curves and bands of braille dots, two columns by four rows in each cell."""

from collections.abc import Sequence
from itertools import groupby

from rich.text import Text

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_CELLS = " " + "".join(chr(0x2800 + dots) for dots in range(1, 256))
_WIDEST_GAP = 8
"""Gaps longer than the curve's length divided by this number are not bridged."""

Dots = list[list[int]]
"""The dots of each cell, by row and column."""


def curve(
    values: Sequence[float | None], rows: int, low: float, high: float, *, period: int = 1, drawn: int = 1
) -> Dots:
    """A curve, from the top row down; each cell holds two values, and None is an unknown value.

    Neighbouring values are joined, also across short gaps. Of each `period` of values the first `drawn` are drawn, so
    that lines can be told apart without colours.
    """
    cells = [[0] * (-(-len(values) // 2)) for _ in range(rows)]
    height = 4 * rows - 1
    most = max(2, len(values) // _WIDEST_GAP)
    before: tuple[int, int] | None = None
    for across, value in enumerate(values):
        if value is None:
            continue
        up = _level(value, low, high, height)
        if before is None or across - before[0] > most:
            before = (across, up)
        for x, bottom, top in _strokes(before, (across, up)):
            if x % period < drawn:
                for y in range(height - top, height - bottom + 1):
                    cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
        before = (across, up)
    return cells


def band(bounds: Sequence[tuple[float, float] | None], rows: int, low: float, high: float) -> Dots:
    """What lies between two curves, as every second dot."""
    cells = [[0] * (-(-len(bounds) // 2)) for _ in range(rows)]
    height = 4 * rows - 1
    for x, bound in enumerate(bounds):
        if bound is not None:
            bottom, top = (_level(value, low, high, height) for value in bound)
            for y in range(height - top, height - bottom + 1):
                if (x + y) % 2:
                    cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
    return cells


def drawing(layers: Sequence[tuple[Dots, str]]) -> list[Text]:
    """The rows of several drawings of one size, each with its style; where they overlap, the first one is seen."""
    lines: list[Text] = []
    for rows in zip(*(dots for dots, _ in layers), strict=True):
        cells, seen = list(rows[0]), [0] * len(rows[0])
        for place, row in enumerate(rows):
            if place and any(row):
                for at, dots in enumerate(row):
                    if dots and not cells[at]:
                        cells[at], seen[at] = dots, place
        words, line, start = "".join([_CELLS[dots] for dots in cells]), Text(), 0
        for place, alike in groupby(seen):
            end = start + len(list(alike))
            line.append(words[start:end], layers[place][1])
            start = end
        lines.append(line)
    return lines


def _level(value: float, low: float, high: float, height: int) -> int:
    share = (value - low) / (high - low) if high > low else 0.5
    return round(max(0.0, min(1.0, share)) * height)


def _strokes(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int, int]]:
    """A line as vertical strokes, each beginning where the last one ended."""
    (x, level), (last, up) = start, end
    if x == last:
        return [(x, min(level, up), max(level, up))]
    strokes: list[tuple[int, int, int]] = []
    here = level
    for at in range(x, last + 1):
        there = round(level + (up - level) * (at - x) / (last - x))
        strokes.append((at, min(here, there), max(here, there)))
        here = there
    return strokes
