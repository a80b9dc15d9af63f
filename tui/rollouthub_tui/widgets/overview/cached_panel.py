"""A panel that is drawn anew only where what it shows has changed."""

from typing import ClassVar

from rich.text import Text
from textual.geometry import Size

from rollouthub_tui.watched_run import WatchedRun
from rollouthub_tui.widgets.line_panel import LinePanel

_TITLED = 1


class Drawn(LinePanel):
    """Shows a drawing of a run that fits its place. Asked again at each tick while it can be seen."""

    NEEDS: ClassVar[str] = "counts"
    """Which of the feed's figures it shows."""

    def __init__(self, title: str, *, id: str) -> None:
        super().__init__(id=id, classes="drawn")
        self.border_title = title
        self._run: WatchedRun | None = None
        self._shown: tuple[Size, object] | None = None

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

    def _fit(self, run: WatchedRun, width: int) -> None:
        rows = self.rows(run, width)
        if rows is not None and self.has_class("-as-high") and self.styles.height != rows + _TITLED:
            self.styles.height = rows + _TITLED

    def on_resize(self) -> None:
        """Fit the new place."""
        if self._run is not None and self._run.is_open:
            self.show(self._run)
