"""Curves of braille dots, two columns by four rows in each cell."""

from collections.abc import Sequence

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_CELLS = " " + "".join(chr(0x2800 + dots) for dots in range(1, 256))
_WIDEST_GAP = 8
"""Gaps longer than the curve's length divided by this number are not bridged."""


def curve(values: Sequence[float | None], rows: int, low: float, high: float) -> list[str]:
    """A curve's rows from the top down; each cell holds two values, and None is an unknown value.

    Neighbouring values are joined, also across short gaps.
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
            for y in range(height - top, height - bottom + 1):
                cells[y // 4][x // 2] |= _DOTS[x % 2][y % 4]
        before = (across, up)
    return ["".join([_CELLS[cell] for cell in row]) for row in cells]


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
