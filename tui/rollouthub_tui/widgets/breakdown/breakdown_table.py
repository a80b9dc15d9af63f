"""The table of one kind of breakdown: a line for each tool, finish reason, stop, tag or cause of faults."""

from collections.abc import Hashable, Sequence

from rollouthub.analysis.breakdowns import BreakdownLine, Kind
from rollouthub.statistics.amounts import NONE, interval, number, share
from rollouthub_tui.widgets.cells import EMPTY, Cell, Column, widest
from rollouthub_tui.widgets.rollouts.live_table import LiveTable
from rollouthub_tui.widgets.rollouts.row_words import name_of
from rollouthub_tui.widgets.virtual_table import shared_out

TITLES: dict[Kind, str] = {
    "tools": "tool",
    "finishes": "finish reason",
    "stops": "stop",
    "tags": "tag",
    "faults": "fault",
}
_TIMES: dict[Kind, str] = {"tools": "calls", "finishes": "turns", "faults": "attempts"}
"""What is counted besides rollouts."""
_NOTHING: dict[Kind, str] = {
    "tools": "no tool was called",
    "finishes": "no turn has a finish reason",
    "stops": "nothing has finished yet",
    "tags": "nothing is tagged: # in the rollouts tags one",
    "faults": "nothing broke",
}
_LEAST_NAME, _EXAMPLE_FROM = 14, 120


class BreakdownTable(LiveTable):
    """A line for each group of rollouts, the most frequent first."""

    def __init__(self) -> None:
        super().__init__()
        self.kind: Kind = "tools"
        self.is_read = False
        """Whether all of the run was read once."""
        self._lines: Sequence[BreakdownLine] = ()
        self._longest = 0

    def take(self, kind: Kind, lines: Sequence[BreakdownLine]) -> None:
        """Show other lines."""
        if kind != self.kind:
            self.kind = kind
            self.cursor = 0
            self.restart()
            self.remake()
        longest = widest(_cell(line, "name", kind).text for line in lines)
        if longest != self._longest:
            self._longest = longest
            self.remake()
        self._lines = lines
        self.update_rows()

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self._lines)

    @property
    def nothing(self) -> str:
        """Why there is no line."""
        return _NOTHING[self.kind] if self.is_read else "reading …"

    @property
    def line(self) -> BreakdownLine | None:
        """The selected line; None if there is none."""
        return self._lines[self.cursor] if self.cursor < self.count else None

    def key(self, row: int) -> Hashable:
        """The line's name."""
        return self._lines[row].name

    def row_of(self, key: Hashable) -> int | None:
        """The row of a name."""
        return next((row for row, line in enumerate(self._lines) if line.name == key), None)

    def stamp(self, row: int) -> Hashable:
        """The values that determine a row's line."""
        line = self._lines[row]
        return (self.kind, line.name, line.times, line.errors, line.rollouts, line.interval, line.pass_rate)

    def fit(self, width: int) -> Sequence[Column]:
        """The columns that fit."""
        has_means, has_times = self.kind != "faults", self.kind in _TIMES
        errors = "errors" if self.kind == "tools" else "unscored"
        wanted = [
            Column("rollouts", "rollouts", 8, is_right=True),
            *([Column("mean", "mean", 6, is_right=True), Column("interval", "95 %", 14)] if has_means else []),
            *([Column("times", _TIMES[self.kind], 8, is_right=True)] if has_times else []),
            Column("errors", errors, 8, is_right=True),
            *([Column("pass", "passed", 6, is_right=True)] if has_means else []),
            *([Column("example", "latest message", 24)] if not has_means and width >= _EXAMPLE_FROM else []),
        ]
        left, shown = width - _LEAST_NAME, [Column("name", TITLES[self.kind], _LEAST_NAME)]
        for column in wanted:
            if column.width + self.GAP <= left:
                shown.append(column)
                left -= column.width + self.GAP
        wanted = {
            name: widest(_cell(line, name, self.kind).text for line in self._lines) for name in ("name", "example")
        }
        return shared_out(width, shown, wanted, self.GAP)

    def cells(self, row: int, columns: Sequence[Column]) -> Sequence[Cell]:
        """The cells of a row."""
        line = self._lines[row]
        return [_cell(line, column.name, self.kind) for column in columns]


def _cell(line: BreakdownLine, column: str, kind: Kind) -> Cell:
    match column:
        case "name":
            text = line.name if kind in ("tools", "tags", "faults") else line.name.replace("_", " ")
            return Cell(name_of(text) or "(no name)")
        case "rollouts":
            return Cell(f"{line.rollouts:,}")
        case "times":
            return Cell(f"{line.times:,}")
        case "errors":
            return Cell(f"{line.errors:,}", "red" if line.errors else "")
        case "mean":
            return Cell(number(line.mean_reward))
        case "interval":
            return Cell(interval(line.interval) or NONE)
        case "pass":
            return Cell(share(line.pass_rate))
        case "example":
            return Cell(name_of(line.example))
        case _:
            return EMPTY
