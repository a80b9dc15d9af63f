"""Bars of block characters, an eighth of a cell fine."""

from collections.abc import Sequence

_ACROSS, _UP = " ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█"


def across(share: float, width: int) -> str:
    """A bar from the left, as long as its share of the width; what is above nothing can be seen."""
    eighths = _eighths(share, width)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_ACROSS[rest] if rest else "")


def upwards(share: float, height: int) -> list[str]:
    """A bar's cells from the top down."""
    full, rest = divmod(_eighths(share, height), 8)
    cells = "█" * full + (_UP[rest] if rest else "")
    return list(cells.ljust(height)[::-1])


def spark(values: Sequence[float | None], most: float | None = None) -> str:
    """A value a cell, in one line. Nothing there, and zero, are a blank; what is above zero can be seen."""
    top = most or max((value for value in values if value is not None), default=0.0)
    return "".join(" " if value is None or not top else _UP[_eighths(value / top, 1)] for value in values)


def _eighths(share: float, cells: int) -> int:
    if not share > 0 or not cells:
        return 0
    return max(1, min(8 * cells, round(share * 8 * cells)))
