"""A widget that shows given lines, and repaints only those that changed."""

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
        self._base: Style | None = None

    def replace(self, drawing: Text) -> None:
        """Show another text."""
        before, self._lines = self._lines, list(drawing.split("\n", allow_blank=True))
        width = self.content_size.width
        changed = [
            Region(0, row, width, 1)
            for row in range(max(len(before), len(self._lines)))
            if before[row : row + 1] != self._lines[row : row + 1]
        ]
        if changed:
            self.refresh(*changed)

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines to paint."""
        self._base = None  # it goes through the styles of all that this lies in: found once a frame, not once a line
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """One line, with the panel's background."""
        base = self._base = self._base or self.rich_style
        width = self.content_size.width
        segments = self._lines[y].render(app_of(self).console) if y < len(self._lines) else ()
        styled = list(Segment.apply_style(segments, base))
        return Strip(Segment.adjust_line_length(styled, width, base), width)

    @property
    def text(self) -> str:
        """The panel's text, without colours."""
        return "\n".join(line.plain for line in self._lines)
