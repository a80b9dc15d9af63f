"""The content of a table before it is drawn: columns and cells."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from rich.cells import cell_len

_Order = TypeVar("_Order")
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


def arrowed(column: Column, *, descending: bool) -> Column:
    """The column by which a table is sorted, with the direction in its title."""
    arrow, title = "▼" if descending else "▲", column.title[: max(0, column.width - 1)]
    shown = arrow + title if column.is_right else title + arrow
    return Column(column.name, shown, column.width, column.is_right)


def next_order(orders: Sequence[_Order], present: _Order, step: int) -> _Order:
    """The order after the present one, or before it; the first one if that is not among them."""
    return orders[(orders.index(present) + step) % len(orders)] if present in orders else orders[0]


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
