"""A panel that is drawn again only if its content has changed."""

from typing import ClassVar

from rich.text import Text
from textual.geometry import Size

from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub_tui.widgets.line_panel import LinePanel

_TITLED = 1


class Drawn(LinePanel):
    """Shows a drawing of a run, fitted to the panel's size; refreshed at each tick while it is visible."""

    NEEDS: ClassVar[str] = "counts"
    """Name of the feed's set of figures that it shows."""

    def __init__(self, title: str, *, id: str) -> None:
        super().__init__(id=id, classes="drawn")
        self.border_title = title
        self._run: WatchedRun | None = None
        self._shown: tuple[Size, object] | None = None

    def state(self, run: WatchedRun) -> object:
        """The values that the drawing depends on besides the panel's size; it is redrawn when they change."""
        columns = run.feed.columns
        return columns.generation, len(columns), len(columns.withdrawn), run.feed.info.planned

    def draw(self, run: WatchedRun, width: int, height: int) -> Text:
        """The drawing for this width and height."""
        raise NotImplementedError

    def rows(self, run: WatchedRun, width: int) -> int | None:
        """Number of lines, for a panel whose height follows its content; None for a panel of fixed height."""
        return None

    @property
    def is_drawn(self) -> bool:
        """Whether it shows a drawing for its present size."""
        return self._shown is not None and self._shown[0] == self.content_size

    def show(self, run: WatchedRun) -> None:
        """Redraw if the run or the panel's size has changed."""
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
        """Redraw for the new size."""
        if self._run is not None and self._run.is_open:
            self.show(self._run)
