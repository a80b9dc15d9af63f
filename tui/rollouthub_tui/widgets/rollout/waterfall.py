"""A chart of the stages, model calls and tool calls of a rollout on one time axis."""

from rich.text import Text

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import NONE, seconds, share
from rollouthub_tui.widgets.rollout.rows_view import RowsView
from rollouthub_tui.widgets.rollout.spans import Kind, Stretch, stretches, sums

_LOOKS: dict[Kind, tuple[str, str]] = {
    "queue": ("·", "bright_black"),
    "setup": ("░", "cyan"),
    "model": ("█", "blue"),
    "tool": ("▒", "yellow"),
    "verify": ("▓", "magenta"),
    "close": ("░", "bright_black"),
}
"""Character and colour of the bars; characters differ for readers without colour."""


class Waterfall(RowsView):
    """The totals of the stages, and below them a row for each stage and call."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._stretches: list[Stretch] = []
        self._sums: list[Text] = []
        self._end = 0.0

    def show(self, rollout: Rollout) -> None:
        """Show the timings of a rollout."""
        self._stretches = stretches(rollout)
        self._end = max([rollout.timings.total, *(each.started + each.seconds for each in self._stretches)])
        self._sums = _sums(rollout)
        self.changed()

    @property
    def row_count(self) -> int:
        """The number of rows: the totals, an axis, and the bars."""
        return len(self._sums) + 1 + len(self._stretches) if self._sums else 0

    def row_text(self, row: int) -> Text:
        """A total, the axis, or a bar."""
        if row < len(self._sums):
            return self._sums[row]
        names = 14 if self.row_width < 100 else 28
        room = max(8, self.row_width - names - 14)
        row -= len(self._sums)
        if row == 0:
            end = seconds(self._end)
            return Text(f"{'':<{names}} 0{end:>{room - 1}}", style="dim")
        return self._bar(self._stretches[row - 1], names, room)

    def _bar(self, each: Stretch, names: int, room: int) -> Text:
        sign, style = _LOOKS[each.kind]
        indent = "  " if each.kind == "tool" else ""
        # Clamped before it is a whole number: a record from elsewhere may say any time.
        start = min(1.0, max(0.0, each.started) / self._end) if self._end > 0 else 0.0
        share = max(0.0, min(1.0, each.seconds / self._end)) if self._end > 0 else 0.0
        begin = min(room - 1, int(start * room))
        size = max(1, min(room - begin, round(share * room)))
        name = Text(f"{indent}{each.name}", style="bold red" if each.is_error else "")
        name.truncate(names, overflow="ellipsis", pad=True)
        return Text.assemble(
            name,
            " ",
            " " * begin,
            (sign * size, style),
            " " * (room - begin - size),
            f" {seconds(each.seconds):>10}",
            (" !" if each.is_error else "", "bold red"),
        )


def _sums(rollout: Rollout) -> list[Text]:
    rows: list[Text] = []
    for each in sums(rollout):
        sign, style = _LOOKS[each.kind] if each.kind else (" ", "")
        part = NONE if each.share is None else share(each.share)
        figures = f"{each.name:<17}{seconds(each.seconds):>10}  {part:>6}  "
        rows.append(Text.assemble((f"{sign} ", style), figures, (each.note, "dim")))
    return [*rows, Text("")]
