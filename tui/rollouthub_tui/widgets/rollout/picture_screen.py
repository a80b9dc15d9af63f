"""Shows a picture on top of the screen it was opened from."""

from typing import TYPE_CHECKING, ClassVar

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from rollouthub_tui.widgets.rollout.document import Medium
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line
from rollouthub_tui.widgets.rollout.terminal_graphics import pixel_widget

if TYPE_CHECKING:
    from PIL.Image import Image


class HalfCells(Widget):
    """A picture drawn with half-block characters, two pixels in each cell."""

    DEFAULT_CSS = "HalfCells { width: 1fr; height: 1fr; }"

    def __init__(self, picture: "Image") -> None:
        super().__init__()
        self._picture = picture
        self._strips: list[Strip] = []
        self._drawn_for = (0, 0)

    def render_line(self, y: int) -> Strip:
        """One line of the picture."""
        size = (self.size.width, self.size.height)
        if size != self._drawn_for:
            self._drawn_for, self._strips = size, self._draw(*size)
        return self._strips[y] if y < len(self._strips) else Strip.blank(size[0], self.rich_style)

    def _draw(self, width: int, height: int) -> list[Strip]:
        scale = min(width / self._picture.width, 2 * height / self._picture.height)
        columns = max(1, int(self._picture.width * scale))
        rows = max(1, (int(self._picture.height * scale) + 1) // 2)
        pixels = self._picture.resize((columns, 2 * rows)).tobytes()
        blank = self.rich_style
        left = (width - columns) // 2

        def colour(x: int, y: int) -> Color:
            at = 3 * (y * columns + x)
            return Color.from_rgb(*pixels[at : at + 3])

        strips: list[Strip] = []
        for row in range(rows):
            cells = [
                Segment("▀", Style(color=colour(x, 2 * row), bgcolor=colour(x, 2 * row + 1))) for x in range(columns)
            ]
            ends = Segment(" " * left, blank), Segment(" " * (width - left - columns), blank)
            strips.append(Strip([ends[0], *cells, ends[1]], width))
        return strips


class PictureScreen(ModalScreen[None]):
    """Shows one picture; any of the keys for going back closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,h,backspace,enter,space", "dismiss", "Close")]
    DEFAULT_CSS = """
    PictureScreen { align: center middle; }
    PictureScreen > Vertical { width: 90%; height: 90%; border: round $primary; background: $surface; }
    PictureScreen Static { height: 1; width: 1fr; }
    """

    def __init__(self, medium: Medium, picture: "Image") -> None:
        super().__init__()
        self._medium, self._picture = medium, picture

    def compose(self) -> ComposeResult:
        """A caption and the picture."""
        told = f"{drawn_line(self._medium.mime_type, 40)} · {drawn_line(self._medium.digest[:30])}… · escape closes"
        with Vertical():
            yield Static(Text(told, style="dim", no_wrap=True))
            pixels = pixel_widget(self._picture)
            if pixels is not None:
                pixels.id = "pixels"
            yield pixels or HalfCells(self._picture)

    def on_resize(self) -> None:
        """Keep the picture's proportions: a cell is about twice as high as it is wide."""
        for pixels in self.query("#pixels"):
            width, height = int(0.9 * self.size.width) - 2, int(0.9 * self.size.height) - 3
            scale = min(width / self._picture.width, 2 * height / self._picture.height)
            pixels.styles.width = max(1, round(self._picture.width * scale))
            pixels.styles.height = max(1, round(self._picture.height * scale / 2))
