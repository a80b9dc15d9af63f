"""A view of rows that are drawn only while visible, with a cursor for arrow and vim keys."""

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rollouthub_tui.navigation import app_of

_KEPT_STRIPS = 400


class RowsView(ScrollView, can_focus=True):
    """Subclasses give the text of any row on request; no widget exists for a row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("g,home", "move_to(0)", "To the beginning", show=False),
        Binding("G,end", "move_to(-1)", "To the end", show=False),
        Binding("ctrl+d,pagedown", "page(1)", "A page down", show=False),
        Binding("ctrl+u,pageup", "page(-1)", "A page up", show=False),
    ]
    HAS_CURSOR: ClassVar[bool] = True
    EDGE: ClassVar[str] = " "
    """What every row begins with, at the cursor's mark."""
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--match", "rows--edge"}
    DEFAULT_CSS = """
    RowsView { height: 1fr; width: 1fr; overflow-y: scroll; overflow-x: hidden; scrollbar-size-vertical: 1;
        background: $background; color: $foreground; }
    RowsView .rows--cursor { background: $boost; }
    RowsView:focus .rows--cursor { background: $panel; }
    RowsView .rows--match { color: $text-warning; text-style: reverse; }
    RowsView .rows--edge { color: $foreground 25%; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = 0
        """Index of the cursor's row."""
        self._strips: dict[int, Strip] = {}
        self._laid_width = 0

    @property
    def row_count(self) -> int:
        """The number of rows."""
        raise NotImplementedError

    def row_text(self, row: int) -> Text:
        """The text of one row."""
        raise NotImplementedError

    def lay_out_again(self) -> None:
        """Lay out the rows for the present width; this class has nothing to do."""

    @property
    def row_width(self) -> int:
        """Cells of a row without the cursor's mark and the scrollbar; while the view is hidden, those it had, or may
        get.
        """
        hidden = self._laid_width or (self.screen.size.width if self.is_attached else 0)
        return max(10, (self.size.width or hidden) - len(self.EDGE) - self.scrollbar_size_vertical)

    @property
    def is_at_end(self) -> bool:
        """Whether the last row is visible."""
        return self.scroll_offset.y >= self.row_count - self.size.height

    def changed(self) -> None:
        """Redraw everything."""
        self._strips.clear()
        self.cursor = max(0, min(self.cursor, self.row_count - 1))
        size = Size(self.size.width, self.row_count)
        if size != self.virtual_size:
            self.virtual_size = size
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for a new width."""
        if self.size.width and self.size.width != self._laid_width:
            self._laid_width = self.size.width
            self.lay_out_again()
            self.changed()

    def notify_style_update(self) -> None:
        """Redraw everything, as the colours may have changed."""
        super().notify_style_update()
        self._strips.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows to paint, each drawn once; without border and padding, Textual's own cache of lines has no use."""
        width = max(0, self.size.width - self.scrollbar_size_vertical)  # the bar is painted by itself
        # It goes through the styles of all that this lies in: found once a frame, not once a line.
        base, top, count = self.rich_style, self.scroll_offset.y, self.row_count
        strips = [self._kept(top + y, width, base, count) for y in crop.line_range]
        if crop.x > 0 or crop.right < width:
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """One visible row."""
        return self.render_lines(Region(0, y, self.size.width, 1))[0]

    def _kept(self, row: int, width: int, base: Style, count: int) -> Strip:
        row = min(row, count)  # all lines below the last row are the same
        strip = self._strips.get(row)
        if strip is None or strip.cell_length != width:
            if len(self._strips) >= _KEPT_STRIPS:
                self._strips.clear()
            strip = self._strip(row, width, base) if row < count else self._drawn(Text(), " ", width, base)
            background = self.background_colors[1]
            for each in self.get_line_filters():
                strip = strip.apply_filter(each, background)
            self._strips[row] = strip
        return strip

    def _strip(self, row: int, width: int, base: Style) -> Strip:
        if self.HAS_CURSOR and row == self.cursor:
            return self._drawn(self.row_text(row), "▌", width, base + self.get_component_rich_style("rows--cursor"))
        return self._drawn(self.row_text(row), " ", width, base)

    def _drawn(self, row: Text, mark: str, width: int, base: Style) -> Strip:
        edge = (mark, "blue") if self.EDGE == " " else (self.EDGE, self.get_component_rich_style("rows--edge"))
        text = Text.assemble(edge, row, end="", no_wrap=True)
        app = app_of(self)
        segments = text.render(app.console)
        if app.no_color:  # greys of colours differ by nothing that means anything
            segments = (Segment(text, style and style.without_color) for text, style, _ in segments)
        return Strip(segments).adjust_cell_length(width).apply_style(base)

    def go_to(self, row: int, *, top: bool = False) -> None:
        """Move the cursor to a row and scroll to it; with `top`, it becomes the first visible row."""
        row = max(0, min(row, self.row_count - 1))
        if row != self.cursor:
            old, self.cursor = self.cursor, row
            for each in (old, row):
                self._strips.pop(each, None)
                self.refresh_lines(each)
            self.moved()
        height, first = self.size.height, self.scroll_offset.y
        if top or row < first:
            self.scroll_to(y=row, animate=False, immediate=True)
        elif row >= first + height:
            self.scroll_to(y=row - height + 1, animate=False, immediate=True)

    def moved(self) -> None:
        """Called when the cursor has moved; this class does nothing."""

    def action_move(self, rows: int) -> None:
        """Move the cursor by this many rows."""
        first, height = self.scroll_offset.y, self.size.height
        if not first <= self.cursor < first + height:  # scrolled away from it
            self.go_to(first if rows > 0 else first + height - 1)
            return
        self.go_to(self.cursor + rows)

    def action_move_to(self, row: int) -> None:
        """Go to a row; a negative one counts from the end."""
        self.go_to(row if row >= 0 else self.row_count + row)

    def action_page(self, pages: int) -> None:
        """Scroll by this many pages, with two rows of overlap."""
        step = pages * max(1, self.size.height - 2)
        self.scroll_to(y=max(0, self.scroll_offset.y + step), animate=False, immediate=True)
        self.go_to(self.cursor + step)

    def on_click(self, event: events.Click) -> None:
        """Handle a click on a row."""
        row = self.scroll_offset.y + event.y
        if row < self.row_count:
            self.clicked(row, event.x)

    def clicked(self, row: int, column: int) -> None:
        """Move the cursor to the clicked row."""
        self.go_to(row)
