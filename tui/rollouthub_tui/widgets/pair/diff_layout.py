"""Lays out the rows of a difference on lines of the screen: folded, in one column or two."""

from array import array
from bisect import bisect_right
from dataclasses import dataclass, field

from rollouthub_tui.widgets.pair.difference import CHANGED, GONE, NEW, SAME, Difference
from rollouthub_tui.widgets.pair.line_wrap import height_of

CONTEXT = 2
"""Equal rows shown before and after a difference."""
_LEAST = 4
"""Fewest rows that are folded."""
BOTH, LEFT, RIGHT, FOLD = 0, 1, 2, 3


@dataclass(slots=True)
class Layout:
    """The entries from top to bottom; an entry is a row, one side of a row, or a fold."""

    is_double: bool
    width: int
    """Width of a line's text in cells, in one column."""
    rows: "array[int]" = field(default_factory=lambda: array("i"))
    """For each entry, its row; for a fold, its first row."""
    stops: "array[int]" = field(default_factory=lambda: array("i"))
    """For each entry, the row after its last."""
    sides: bytearray = field(default_factory=bytearray)
    tops: "array[int]" = field(default_factory=lambda: array("q"))
    """For each entry, the line of the screen where it begins."""
    entries: "array[int]" = field(default_factory=lambda: array("i"))
    """For each row, the index of its first entry."""
    height: int = 0

    def at(self, line: int) -> tuple[int, int]:
        """The entry at a line, and the line's number within it."""
        entry = bisect_right(self.tops, line) - 1
        return entry, line - self.tops[entry]

    def top_of(self, row: int) -> int:
        """The line where a row begins, or where the fold that hides it does."""
        return self.tops[self.entries[row]]

    def add(self, row: int, stop: int, side: int, height: int) -> None:
        """Append an entry."""
        for at in range(row, stop):
            if self.entries[at] < 0:
                self.entries[at] = len(self.rows)
        self.rows.append(row)
        self.stops.append(stop)
        self.sides.append(side)
        self.tops.append(self.height)
        self.height += height


def lay_out(difference: Difference, width: int, *, is_double: bool, folds: bool, unfolded: set[int]) -> Layout:
    """Lay out the rows; `unfolded` contains the first rows of open folds."""
    made = Layout(is_double, max(8, width), entries=array("i", [-1]) * len(difference))
    marks, row = difference.marks, 0
    while row < len(marks):
        stop = row + 1
        is_same = marks[row] == SAME
        while stop < len(marks) and (marks[stop] == SAME) == is_same:
            stop += 1
        if is_same:
            _add_same(made, difference, row, stop, folds, unfolded)
        elif is_double:
            for at in range(row, stop):
                _add_row(made, difference, at, BOTH)
        else:
            for at in range(row, stop):
                if marks[at] in (CHANGED, GONE):
                    _add_row(made, difference, at, LEFT)
            for at in range(row, stop):
                if marks[at] in (CHANGED, NEW):
                    _add_row(made, difference, at, RIGHT)
        row = stop
    return made


def _add_same(made: Layout, difference: Difference, row: int, stop: int, folds: bool, unfolded: set[int]) -> None:
    low = row + CONTEXT if row else row
    high = stop - CONTEXT if stop < len(difference) else stop
    if not folds or high - low < _LEAST or low in unfolded:
        low = high = stop
    for at in range(row, low):
        _add_row(made, difference, at, BOTH)
    if low < high:
        made.add(low, high, FOLD, 1)
    for at in range(high, stop):
        _add_row(made, difference, at, BOTH)


def _add_row(made: Layout, difference: Difference, row: int, side: int) -> None:
    width = made.width
    height = height_of(difference.left(row), width) if side != RIGHT else 1
    if side == RIGHT or (side == BOTH and made.is_double):
        height = max(height, height_of(difference.right(row), width))
    made.add(row, row + 1, side, height)
