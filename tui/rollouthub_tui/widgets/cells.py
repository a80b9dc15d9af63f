"""The content of a table before it is drawn: columns and cells."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rich.cells import cell_len

MARKED = "▪"
"""The mark of a row that a person marked, in every list."""


@dataclass(frozen=True, slots=True)
class Column:
    """A visible column."""

    name: str
    title: str
    width: int
    """Width in cells of the terminal."""
    is_right: bool = False


def widest(texts: Iterable[str]) -> int:
    """Cells of the widest text; 0 if there is none."""
    return max(map(cell_len, texts), default=0)


class Cell(NamedTuple):
    """The plain text of one table cell. A tuple, since a frame makes hundreds."""

    text: str
    style: str = ""
    """A Rich style; empty for the table's own."""
    spans: bool = False
    """Whether the text extends to the end of the line, so that the columns after it are not shown."""


EMPTY = Cell("")
