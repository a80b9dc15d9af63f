"""A panel that is drawn anew only where what it shows has changed, and painted only in the lines that did."""

from typing import ClassVar

from rich.text import Text
from textual.geometry import Region, Size
from textual.strip import Strip

from envhub_tui.navigation import app_of
from envhub_tui.panel import Panel
from envhub_tui.watched import WatchedRun

_TITLED = 1


class Drawn(Panel):
    """Shows a drawing that fits its place.

    Lines are handed over as they are: to wrap and style a text again, as other widgets do, takes several times as long.
    """

    ALLOW_SELECT = False
    NEEDS: ClassVar[str] = "counts"
    """Which of the feed's figures it shows."""

    def __init__(self, title: str, *, id: str) -> None:
        super().__init__(id=id, markup=False, classes="drawn")
        self.border_title = title
        self._run: WatchedRun | None = None
        self._shown: tuple[Size, object] | None = None
        self._lines: list[Text] = []

    def state(self, run: WatchedRun) -> object:
        """What the drawing depends on, apart from its place: equal where nothing has changed."""
        columns = run.feed.columns
        return columns.generation, len(columns), len(columns.withdrawn), run.feed.info.planned

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """The drawing for a place of that size."""
        raise NotImplementedError

    def rows(self, run: WatchedRun, width: int) -> int | None:
        """How many lines there are to show, for a panel that is as high as those; None for one that is as it is."""
        return None

    @property
    def is_drawn(self) -> bool:
        """Whether it shows something that fits its place."""
        return self._shown is not None and self._shown[0] == self.content_size

    def show(self, run: WatchedRun) -> None:
        """Show how the run is now."""
        self._run = run
        size = self.content_size
        if not size.width or not size.height:
            return
        state = (size, self.state(run))
        if state != self._shown:
            self._shown = state
            self._fit(run, size.width)
            self.replace(self.draw(run, size.width, size.height))

    def replace(self, drawing: Text) -> None:
        """Show a drawing."""
        before, self._lines = self._lines, list(drawing.split("\n", allow_blank=True))
        width = self.content_size.width
        changed = [
            Region(0, row, width, 1)
            for row in range(max(len(before), len(self._lines)))
            if before[row : row + 1] != self._lines[row : row + 1]
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """One line, by what it is on."""
        width, style = self.content_size.width, self.rich_style
        if y >= len(self._lines):
            return Strip.blank(width, style)
        segments = self._lines[y].render(app_of(self).console)
        return Strip(segments).apply_style(style).adjust_cell_length(width, style)

    @property
    def text(self) -> str:
        """What it shows, without colours."""
        return "\n".join(line.plain for line in self._lines)

    def _fit(self, run: WatchedRun, width: int) -> None:
        rows = self.rows(run, width)
        if rows is not None and self.has_class("-as-high") and self.styles.height != rows + _TITLED:
            self.styles.height = rows + _TITLED

    def on_resize(self) -> None:
        """Fit the new place."""
        if self._run is not None and self._run.is_open:
            self.show(self._run)
