"""The content of a table before it is drawn: columns and cells."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Column:
    """A visible column."""

    name: str
    title: str
    width: int
    """Width in cells of the terminal."""
    is_right: bool = False


class Cell(NamedTuple):
    """The plain text of one table cell. A tuple, since a frame makes hundreds."""

    text: str
    style: str = ""
    """A Rich style; empty for the table's own."""
    spans: bool = False
    """Whether the text extends to the end of the line, so that the columns after it are not shown."""


EMPTY = Cell("")
