"""A table whose rows come, go and change places while a person looks at it."""

from collections.abc import Hashable, Sequence
from typing import ClassVar, cast

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

from rollouthub_tui.widgets.cells import Cell, Column
from rollouthub_tui.widgets.virtual_table import Listing, fitted, parsed

# On the class it is the reactive, whatever it is declared as.
_VIRTUAL_SIZE = cast(Reactive[Size], Widget.virtual_size)
_KEPT = 512
"""Most rendered lines in the cache."""


class LiveTable(Listing):
    """The cursor stays at its row, which stays at its place on the screen; at the top, both stay at the top.

    Only changed lines are repainted, and additional rows cause no new layout.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {"live-table--nothing"}
    DEFAULT_CSS = """
    LiveTable > .live-table--nothing { color: $text-muted; }
    """
    GAP = 2

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines_made = 0
        """How many lines were rendered so far."""
        self._at: Hashable = None
        self._top: Hashable = None
        self._is_shown = False
        self._strips: LRUCache[Hashable, Strip] = LRUCache(_KEPT)
        self._painted: dict[int, Hashable] = {}
        self._plain: Style | None = None
        self._fitted: tuple[int, list[Column]] | None = None

    def key(self, row: int) -> Hashable:
        """An identifier of a row that does not depend on the order."""
        raise NotImplementedError

    def row_of(self, key: Hashable) -> int | None:
        """The present row for a key; None if it is not listed."""
        raise NotImplementedError

    def stamp(self, row: int) -> Hashable:
        """A value that determines a row's line: equal stamps mean equal lines."""
        raise NotImplementedError

    @property
    def nothing(self) -> str:
        """The text shown if there are no rows."""
        return "nothing here yet"

    def columns(self, width: int) -> Sequence[Column]:
        """The columns for a width, cached."""
        if self._fitted is None or self._fitted[0] != width:
            self._fitted = (width, list(self.fit(width)))
            self._strips.clear()
        return self._fitted[1]

    @property
    def room(self) -> int:
        """Width of a line in cells, without the scroll bar."""
        return self.size.width - self.scrollbar_size_vertical

    @property
    def shown_columns(self) -> Sequence[Column]:
        """The columns for the present width."""
        return self.columns(max(0, self.room - 2))

    def fit(self, width: int) -> Sequence[Column]:
        """The columns that fit a width in cells, gaps included."""
        raise NotImplementedError

    def remake(self) -> None:
        """Render every line anew, because columns or labels changed."""
        self._fitted = None
        self._strips.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        """Render every line anew, as the colours have changed."""
        super().notify_style_update()
        self._plain = None
        self._strips.clear()

    def update_rows(self) -> None:
        """Update after rows have changed; keeps the cursor at its row, and repaints changed lines."""
        count, was = self.count, self.cursor
        top, room = self.scroll_offset.y, max(1, self.size.height - 1)
        self._fit_height()
        if not self._is_shown or was == 0:
            row = 0
        else:
            found = self.row_of(self._at)
            row = min(was, max(0, count - 1)) if found is None else found
        if top <= was < top + room:
            new_top = row - (was - top) if row else 0
        else:
            kept = self.row_of(self._top) if top else 0
            new_top = top if kept is None else kept
        self._is_shown = self._is_shown or count > 0
        if row != was:
            self.set_reactive(Listing.cursor, row)
        self._at = self.key(row) if row < count else None
        if row != was:
            self.post_message(self.Moved())
        new_top = max(0, min(new_top, self.max_scroll_y))
        if new_top != top:
            self.scroll_to(y=new_top, animate=False, force=True)
        self._top = self.key(new_top) if new_top < count else None
        self._repaint()

    def restart(self) -> None:
        """Forget all rows, and go to the top."""
        self._is_shown = False
        self._at = self._top = None
        self._strips.clear()
        self.scroll_to(y=0, animate=False, force=True)

    def _fit_height(self) -> None:
        size = Size(self.size.width, self.count + 1)
        if size == self.virtual_size:
            return
        overflows = size.height > self.container_size.height
        if not self.is_attached or overflows != self.show_vertical_scrollbar:
            self.virtual_size = size  # a scroll bar comes or goes, and the screen is laid out
            return
        before = self.virtual_size
        self.set_reactive(_VIRTUAL_SIZE, size)
        room = max(1, self.size.height)
        # A bar is drawn in eighths of cells; one that would look the same is left as it is.
        if overflows and round(8 * room * room / before.height) != round(8 * room * room / size.height):
            self.vertical_scrollbar.window_virtual_size = size.height
        elif overflows:
            self.vertical_scrollbar.set_reactive(type(self.vertical_scrollbar).window_virtual_size, size.height)
        if self.scroll_y > self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def watch_cursor(self, before: int, now: int) -> None:
        """Scroll to the cursor."""
        self._at = self.key(self.cursor) if self.cursor < self.count else None
        self._reveal()
        self._top = self.key(self.scroll_offset.y) if self.scroll_offset.y < self.count else None
        self._repaint()
        self.post_message(self.Moved())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Remember the top row, so that it can stay there."""
        super().watch_scroll_y(old_value, new_value)
        top = round(new_value)
        self._top = self.key(top) if 0 < top < self.count else None

    def go(self, row: int | None) -> bool:
        """Move the cursor to a row; False if it is None."""
        if row is None:
            return False
        self.cursor = row
        return True

    def _repaint(self) -> None:
        top, count, painted = self.scroll_offset.y, self.count, self._painted
        last = max(count - top, max(painted, default=0))
        lines = range(min(self.size.height, last + 1))
        stamps = self._stamps(lines, top, count)
        changed = [y for y, stamp in zip(lines, stamps, strict=True) if painted.get(y) != stamp]
        if len(changed) * 2 > len(lines):
            self.refresh()
            return
        width = self.size.width
        for y in changed:
            self.refresh(Region(0, y, width, 1))

    def _stamps(self, lines: range, top: int, count: int) -> list[Hashable]:
        cursor, nothing, has_focus = self.cursor, () if count else (self.nothing,), self.has_focus
        made: list[Hashable] = []
        for y in lines:
            row = top + y - 1
            if y == 0:
                made.append(tuple(self.shown_columns))
            elif row >= count:
                made.append(nothing if row == 0 else ())
            elif row == cursor:
                made.append((self.stamp(row), has_focus))
            else:
                made.append((self.stamp(row),))
        return made

    def render_lines(self, crop: Region) -> list[Strip]:
        """The requested lines, each rendered once.

        Without border, padding or links, Textual's own cache of lines has no use here, and takes as long as rendering.
        """
        width, top, count = self.room, self.scroll_offset.y, self.count
        # Each of these goes through all styles: once for a frame, not once a line.
        filters, background = self.get_line_filters(), self.background_colors[1]
        self._plain = self.rich_style
        lines = crop.line_range
        strips: list[Strip] = []
        for y, stamp in zip(lines, self._stamps(range(lines.start, lines.stop), top, count), strict=True):
            self._painted[y] = stamp
            key = (width, stamp)
            strip = self._strips.get(key)
            if strip is None:
                segments = self._made(y, top + y - 1, width, count)
                for each in filters:
                    segments = each.apply(segments, background)
                # The scroll bar is painted by itself: a line that ends where it begins need not be cut in two.
                strip = self._strips[key] = Strip(segments, width)
            strips.append(strip)
        if crop.x > 0 or crop.right < width:
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        return Strip(self._made(y, self.scroll_offset.y + y - 1, self.room, self.count), self.room)

    def _made(self, y: int, row: int, width: int, count: int) -> list[Segment]:
        self.lines_made += 1
        columns = self.columns(max(0, width - 2))
        if y == 0:
            titles = [Cell(column.title) for column in columns]
            return self._line("  ", columns, titles, self.get_component_rich_style("listing--header"), width)
        if row >= count:
            if row or count:
                return [Segment(" " * width, self.rich_style)]
            return [Segment(fitted("  " + self.nothing, width), self.get_component_rich_style("live-table--nothing"))]
        cells = self.cells(row, columns)
        if row != self.cursor:
            if self._plain is None:
                self._plain = self.rich_style
            return self._line(" " + self.mark(row), columns, cells, self._plain, width)
        # On the cursor's own colours those of a cell might not be seen.
        bare = [Cell(cell.text) for cell in cells]
        return self._line("›" + self.mark(row), columns, bare, self.get_component_rich_style("listing--cursor"), width)

    def _line(
        self, mark: str, columns: Sequence[Column], cells: Sequence[Cell], base: Style, width: int
    ) -> list[Segment]:
        segments: list[Segment] = []
        text, used, gap = mark, 2, " " * self.GAP
        for column, cell in zip(columns, cells, strict=True):
            if used > 2:
                text += gap
                used += self.GAP
            said = fitted(cell.text, column.width, is_right=column.is_right)
            used += column.width
            if cell.style:
                segments += (Segment(text, base), Segment(said, base + parsed(cell.style)))
                text = ""
            else:
                text += said
        segments.append(Segment(text + " " * (width - used), base))
        return segments if used <= width else Segment.adjust_line_length(segments, width, base)
