"""A table of any length: lines are made only while they are visible, and there is no object per row."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rollouthub_tui.widgets.cells import Cell, Column


def fitted(text: str, width: int, *, is_right: bool = False) -> str:
    """A text cut or padded to exactly `width` cells; what is cut ends in an ellipsis."""
    length = len(text) if text.isascii() else cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…" if width > 0 else ""
    filling = " " * (width - length)
    return filling + text if is_right else text + filling


@lru_cache(512)
def parsed(style: str) -> Style:
    """The Rich style for its name."""
    return Style.parse(style)


class Listing(ScrollView, can_focus=True):
    """A header, rows and a cursor; subclasses give the cells of any row."""

    DEFAULT_CSS = """
    Listing { height: 1fr; overflow-x: hidden; overflow-y: auto; background: $background; color: $foreground;
        scrollbar-size-vertical: 1; }
    Listing > .listing--header { text-style: bold; background: $panel; color: $foreground; }
    Listing > .listing--cursor { background: $surface-lighten-2; color: $foreground; }
    Listing:focus > .listing--cursor { background: $block-cursor-background; color: $block-cursor-foreground; }
    """
    COMPONENT_CLASSES = {"listing--header", "listing--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False),
        Binding("k,up", "move(-1)", "Up", show=False),
        Binding("g,home", "first", "First", show=False),
        Binding("G,end", "last", "Last", show=False),
        Binding("ctrl+d,pagedown", "page(1)", "Page down", show=False),
        Binding("ctrl+u,pageup", "page(-1)", "Page up", show=False),
        Binding("enter,l", "open", "Open", show=False),
    ]
    GAP = 1
    """Cells between two columns."""

    cursor: reactive[int] = reactive(0, repaint=False)
    """Index of the cursor's row."""

    class Opened(Message):
        """Posted when a row is opened."""

    class Moved(Message):
        """Posted when the cursor is at another row."""

    class Sorted(Message):
        """Posted when a person clicks a column's title to sort by it."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    @property
    def count(self) -> int:
        """The number of rows."""
        raise NotImplementedError

    def columns(self, width: int) -> Sequence[Column]:
        """The columns that fit a width in cells, gaps included."""
        raise NotImplementedError

    @property
    def shown_columns(self) -> Sequence[Column]:
        """The columns for the present width."""
        return self.columns(max(0, self.size.width - 3))  # the cursor's mark, the row's and the scrollbar

    def cells(self, row: int, columns: Sequence[Column]) -> Sequence[Cell]:
        """The cells of a row, one for each column."""
        raise NotImplementedError

    def mark(self, row: int) -> str:
        """One character at the beginning of a row, after the cursor's mark."""
        return " "

    def update_rows(self) -> None:
        """Redraw after rows were added, removed or changed."""
        size = Size(self.size.width, self.count + 1)
        if size != self.virtual_size:
            self.virtual_size = size
        self.cursor = max(0, min(self.cursor, self.count - 1))
        self.refresh()

    def on_resize(self) -> None:
        """Lay out for the new width."""
        self.update_rows()
        self._reveal()

    def visible_rows(self) -> range:
        """The range of the visible rows."""
        top = self.scroll_offset.y
        return range(min(top, self.count), min(top + max(0, self.size.height - 1), self.count))

    def validate_cursor(self, cursor: int) -> int:
        """Limit the cursor to existing rows."""
        return max(0, min(cursor, self.count - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        """Scroll to the cursor and redraw: without scrolling, only two lines."""
        self._reveal()
        for row in (before, now):
            self.refresh_line(row + 1)  # below the header
        self.post_message(self.Moved())

    def _reveal(self) -> None:
        room, top = max(1, self.size.height - 1), self.scroll_offset.y
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + room:
            self.scroll_to(y=self.cursor - room + 1, animate=False, force=True)

    def action_move(self, by: int) -> None:
        """Move the cursor by this many rows."""
        self.cursor += by

    def action_page(self, by: int) -> None:
        """Move the cursor by this many pages."""
        self.cursor += by * max(1, self.size.height - 2)

    def action_first(self) -> None:
        """Go to the first row."""
        self.cursor = 0

    def action_last(self) -> None:
        """Go to the last row."""
        self.cursor = self.count - 1

    def action_open(self) -> None:
        """Open the row at the cursor."""
        if self.count:
            self.post_message(self.Opened())

    def on_click(self, event: Click) -> None:
        """Move the cursor to the clicked row; a double click opens it, and one on a title asks for that order."""
        if event.y == 0:
            self._ask_for_order(event.x - 2)
        row = self.scroll_offset.y + event.y - 1
        if event.y >= 1 and row < self.count:
            self.cursor = row
            if event.chain == 2:
                self.action_open()

    def _ask_for_order(self, x: int) -> None:
        for column in self.shown_columns:
            if 0 <= x < column.width + self.GAP:
                self.post_message(self.Sorted(column.name))
                return
            x -= column.width + self.GAP

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        # The scrollbar comes and goes over the last cell.
        width = max(0, self.size.width - 1)
        columns = self.columns(max(0, width - 2))
        if y == 0:
            style = self.get_component_rich_style("listing--header")
            titles = [Cell(column.title) for column in columns]
            return self._strip("  ", columns, titles, style, width)
        row = self.scroll_offset.y + y - 1
        if row >= self.count:
            return Strip.blank(self.size.width, self.rich_style)
        is_cursor = row == self.cursor
        style = self.get_component_rich_style("listing--cursor") if is_cursor else self.rich_style
        mark = ("›" if is_cursor else " ") + self.mark(row)
        return self._strip(mark, columns, self.cells(row, columns), style, width, is_plain=is_cursor)

    def _strip(
        self,
        mark: str,
        columns: Sequence[Column],
        cells: Sequence[Cell],
        base: Style,
        width: int,
        *,
        is_plain: bool = False,
    ) -> Strip:
        segments = [Segment(mark, base)]
        used = 2
        for place, (column, cell) in enumerate(zip(columns, cells, strict=False)):
            if place:
                segments.append(Segment(" " * self.GAP, base))
                used += self.GAP
            room = width - used if cell.spans else column.width
            text = fitted(cell.text, room, is_right=column.is_right and not cell.spans)
            # On the cursor, whose colour is the theme's, a colour of ours might not be seen.
            segments.append(Segment(text, base + parsed(cell.style) if cell.style and not is_plain else base))
            used += room
            if cell.spans:
                break
        if used < width:
            segments.append(Segment(" " * (width - used), base))
        return Strip(segments).adjust_cell_length(self.size.width, base)


def shared_out(
    width: int, columns: Sequence[Column], wanted: Mapping[str, int], gap: int = Listing.GAP
) -> list[Column]:
    """The columns, with unused width given to those whose widest content wants more cells than they have."""
    left = max(0, width - sum(column.width for column in columns) - gap * max(0, len(columns) - 1))
    needs = [max(0, wanted.get(column.name, 0) - column.width) for column in columns]
    total = sum(needs)
    made: list[Column] = []
    for column, need in zip(columns, needs, strict=True):
        more = need if total <= left else left * need // total
        made.append(Column(column.name, column.title, column.width + more, column.is_right))
    return made
