"""What a table shows, before anything is drawn: columns, and the words in them."""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Column:
    """A column that is shown."""

    name: str
    title: str
    width: int
    """In cells."""
    is_right: bool = False


class Cell(NamedTuple):
    """What stands in a column of a row: plain text. A tuple: hundreds are made for a frame."""

    text: str
    style: str = ""
    """Rich's."""
    spans: bool = False
    """Goes on to the end of the line; the columns after it are not asked for."""


EMPTY = Cell("")
