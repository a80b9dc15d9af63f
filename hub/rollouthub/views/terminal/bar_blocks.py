"""Bars of block characters, with a resolution of an eighth of a cell."""

from collections.abc import Sequence

_ACROSS, _UP = " ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█"


def across(share: float, width: int) -> str:
    """A horizontal bar for a share of the width; a share above zero is always visible."""
    eighths = _eighths(share, width)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_ACROSS[rest] if rest else "")


def upwards(share: float, height: int) -> list[str]:
    """A vertical bar for a share of the height, as cells from the top down."""
    full, rest = divmod(_eighths(share, height), 8)
    cells = "█" * full + (_UP[rest] if rest else "")
    return list(cells.ljust(height)[::-1])


def spark(values: Sequence[float | None], most: float | None = None) -> str:
    """A sparkline of one cell per value; None and zero are blank, and values above zero are always visible."""
    top = most or max((value for value in values if value is not None), default=0.0)
    return "".join(" " if value is None or not top else _UP[_eighths(value / top, 1)] for value in values)


def _eighths(share: float, cells: int) -> int:
    if not share > 0 or not cells:
        return 0
    return max(1, min(8 * cells, round(share * 8 * cells)))
