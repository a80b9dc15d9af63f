"""A widget that shows given lines, and repaints only those that changed."""

from typing import Self

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Static

from rollouthub_tui.navigation import app_of


class LinePanel(Static):
    """Shows lines without wrapping or restyling them, which takes other widgets several times as long."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, markup=False)
        self._lines: list[Text] = []
        self._painted: tuple[Region, list[Strip]] | None = None
        """What was painted last, and of which region; None if more has changed since than a few lines."""
        self._stale: set[int] = set()
        """The lines that have changed since then."""

    def replace(self, drawing: Text) -> None:
        """Show another text."""
        before, self._lines = self._lines, list(drawing.split("\n", allow_blank=True))
        rows = range(max(len(before), len(self._lines)))
        changed = [row for row in rows if before[row : row + 1] != self._lines[row : row + 1]]
        if changed:
            width = self.content_size.width
            self._stale.update(changed)
            super().refresh(*(Region(0, row, width, 1) for row in changed))

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Paint again, as something has changed."""
        self._painted = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """Paint again, as the colours may have changed."""
        super().notify_style_update()
        self._painted = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines to paint: Textual asks for all of them whenever any widget nearby has changed."""
        if self._painted is None or self._painted[0] != crop or crop.x or crop.width != self.outer_size.width:
            self._painted = (crop, super().render_lines(crop))
        elif self._stale:
            self._paint_stale(*self._painted)
        self._stale.clear()
        return self._painted[1]

    def _paint_stale(self, crop: Region, painted: list[Strip]) -> None:
        """Put the lines that have changed between the border and padding that were painted before."""
        sides, width, height = self.gutter, *self.content_size
        base, background, filters = self.rich_style, self.background_colors[1], self.get_line_filters()
        for row in self._stale:
            y = row + sides.top - crop.y
            if row < height and 0 <= y < len(painted):
                strip = self._strip(row, width, base)
                for each in filters:
                    strip = strip.apply_filter(each, background)
                ends = painted[y].crop(0, sides.left), painted[y].crop(sides.left + width, crop.width)
                painted[y] = Strip.join([ends[0], strip, ends[1]])

    def render_line(self, y: int) -> Strip:
        """One line, with the panel's background."""
        return self._strip(y, self.content_size.width, self.rich_style)

    def _strip(self, row: int, width: int, base: Style) -> Strip:
        segments = self._lines[row].render(app_of(self).console) if row < len(self._lines) else ()
        styled = list(Segment.apply_style(segments, base))
        return Strip(Segment.adjust_line_length(styled, width, base), width)

    @property
    def text(self) -> str:
        """The panel's text, without colours."""
        return "\n".join(line.plain for line in self._lines)
