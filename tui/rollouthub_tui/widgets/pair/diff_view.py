"""Shows two transcripts beside each other, or interleaved below 100 columns; makes visible lines only."""

from bisect import bisect_right
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.events import Click
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rollouthub.statistics.amounts import count
from rollouthub_tui.widgets.pair.diff_layout import BOTH, FOLD, LEFT, RIGHT, Layout, lay_out
from rollouthub_tui.widgets.pair.difference import CHANGED, GONE, NEW, SAME, Difference, Piece, words_apart
from rollouthub_tui.widgets.pair.line_wrap import wrapped
from rollouthub_tui.widgets.virtual_table import fitted, parsed

WIDE = 100
_GUTTER = 7
"""Cells before a line's text, for its turn and its mark."""
_STYLES = {SAME: "", CHANGED: "yellow", GONE: "red", NEW: "green"}
_KEPT = 512

_Pieces = list[list[Piece]]


class PairView(ScrollView, can_focus=True):
    """The view of a difference between two transcripts."""

    DEFAULT_CSS = """
    PairView { height: 1fr; overflow-x: hidden; overflow-y: auto; background: $background; color: $foreground;
        scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_lines(1)", "Down", show=False),
        Binding("k,up", "scroll_lines(-1)", "Up", show=False),
        Binding("ctrl+d,pagedown", "scroll_pages(1)", "Page down", show=False),
        Binding("ctrl+u,pageup", "scroll_pages(-1)", "Page up", show=False),
        Binding("g,home", "to_edge(False)", "Top", show=False),
        Binding("G,end", "to_edge(True)", "Bottom", show=False),
    ]

    class Stepped(Message):
        """Posted when another difference is selected."""

    def __init__(self) -> None:
        super().__init__()
        self.difference = Difference()
        self.layout_of = Layout(is_double=True, width=1)
        self.folds = True
        self.change: int | None = None
        """Index of the selected difference; None if none has been selected."""
        self.changes: list[int] = []
        self._unfolded: set[int] = set()
        self._made: LRUCache[int, tuple[_Pieces, _Pieces]] = LRUCache(_KEPT)

    def show_difference(self, difference: Difference) -> None:
        """Show a difference from its top."""
        self.difference, self.changes = difference, difference.changes
        self.change, self._unfolded = None, set()
        self._lay_out()
        self.scroll_to(y=0, animate=False, force=True)

    def on_resize(self) -> None:
        """Wrap lines for the new width; the line at the top stays there."""
        row = self._top_row()
        self._lay_out()
        self._go_to(row)

    @property
    def is_double(self) -> bool:
        """Whether there is room for two columns."""
        return self.outer_size.width >= WIDE

    def _lay_out(self) -> None:
        width = self.size.width - 1  # the scrollbar comes and goes over the last cell
        width = (width - 1) // 2 - _GUTTER if self.is_double else width - _GUTTER
        self.layout_of = lay_out(
            self.difference, width, is_double=self.is_double, folds=self.folds, unfolded=self._unfolded
        )
        self._made.clear()
        self.virtual_size = Size(self.size.width, self.layout_of.height)
        self.refresh()

    def _top_row(self) -> int:
        laid = self.layout_of
        return laid.rows[laid.at(self.scroll_offset.y)[0]] if laid.height else 0

    def _go_to(self, row: int) -> None:
        if self.layout_of.height:
            self.scroll_to(y=self.layout_of.top_of(row), animate=False, force=True)

    def step(self, by: int) -> None:
        """Select the next or previous difference, wrapping around."""
        if not self.changes:
            return
        if self.change is None:
            self.change = 0 if by > 0 else len(self.changes) - 1
        else:
            self.change = (self.change + by) % len(self.changes)
        top = self.layout_of.top_of(self.changes[self.change])
        self.scroll_to(y=max(0, top - 3), animate=False, force=True)
        self.refresh()
        self.post_message(self.Stepped())

    def toggle_all(self) -> None:
        """Fold all equal lines, or unfold all."""
        row = self._top_row()
        self.folds, self._unfolded = not self.folds, set()
        self._lay_out()
        self._go_to(row)

    def unfold_next(self) -> None:
        """Open the first visible fold; if there is none, fold all again."""
        laid, top = self.layout_of, self.scroll_offset.y
        for line in range(top, min(top + self.size.height, laid.height)):
            entry, _ = laid.at(line)
            if laid.sides[entry] == FOLD:
                self._unfold(entry)
                return
        if self._unfolded:
            row = self._top_row()
            self._unfolded = set()
            self._lay_out()
            self._go_to(row)

    def _unfold(self, entry: int) -> None:
        self._unfolded.add(self.layout_of.rows[entry])
        self._lay_out()

    def on_click(self, event: Click) -> None:
        """Open the fold that was clicked."""
        line = self.scroll_offset.y + event.y
        if line < self.layout_of.height:
            entry, _ = self.layout_of.at(line)
            if self.layout_of.sides[entry] == FOLD:
                self._unfold(entry)

    def action_scroll_lines(self, by: int) -> None:
        """Scroll by this many lines."""
        self.scroll_relative(y=by, animate=False, force=True)

    def action_scroll_pages(self, by: int) -> None:
        """Scroll by this many pages."""
        self.action_scroll_lines(by * max(1, self.size.height - 2))

    def action_to_edge(self, is_end: bool) -> None:
        """Go to the top or the bottom."""
        self.scroll_to(y=self.max_scroll_y if is_end else 0, animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width, laid, base = self.size.width, self.layout_of, self.rich_style
        line = self.scroll_offset.y + y
        if line >= laid.height:
            return Strip.blank(width, base)
        entry, piece = laid.at(line)
        row, side = laid.rows[entry], laid.sides[entry]
        if side == FOLD:
            words = f"┄┄ {count(laid.stops[entry] - row, 'equal line')} ┄┄"
            return Strip([Segment(fitted(words, width), base + parsed("dim"))]).adjust_cell_length(width, base)
        left, right = self._pieces(entry)
        mark, is_here = self.difference.marks[row], self._is_here(row)
        first, second = self.difference.lefts[row], self.difference.rights[row]
        if laid.is_double:
            segments = self._column(mark if first >= 0 else SAME, first, LEFT, left, piece, base, is_here)
            segments.append(Segment("│", base + parsed("dim")))
            segments += self._column(mark if second >= 0 else SAME, second, RIGHT, right, piece, base, is_here)
        elif side == RIGHT:
            segments = self._column(NEW, second, RIGHT, right, piece, base, is_here)
        else:
            segments = self._column(SAME if side == BOTH else GONE, first, LEFT, left, piece, base, is_here)
        return Strip(segments).adjust_cell_length(width, base)

    def _is_here(self, row: int) -> bool:
        """Whether a row belongs to the selected difference."""
        if self.change is None or self.difference.marks[row] == SAME:
            return False
        return bisect_right(self.changes, row) - 1 == self.change

    def _pieces(self, entry: int) -> tuple[_Pieces, _Pieces]:
        made = self._made.get(entry)
        if made is None:
            row, width = self.layout_of.rows[entry], self.layout_of.width
            left, right = self.difference.left(row) or "", self.difference.right(row) or ""
            if self.difference.marks[row] == CHANGED:
                one, other = words_apart(left, right)
            else:
                one, other = [(left, False)], [(right, False)]
            made = self._made[entry] = (wrapped(one, width), wrapped(other, width))
        return made

    def _column(
        self, mark: str, line: int, side: int, pieces: _Pieces, piece: int, base: Style, is_here: bool
    ) -> list[Segment]:
        style = base + parsed(_STYLES[mark]) if mark != SAME else base
        # What differs in a line is underlined, too: a colour alone is not seen by all.
        apart = style + parsed("bold underline")
        gutter = style + parsed("reverse") if is_here and line >= 0 else style
        width = self.layout_of.width
        turns = self.difference.first_turns if side == LEFT else self.difference.second_turns
        begins = line >= 0 and piece == 0 and (line == 0 or turns[line - 1] != turns[line])
        number = f"{turns[line] + 1:>4}" if begins and turns[line] >= 0 else "    "
        shown = [Segment(number, base + parsed("dim")), Segment(f" {mark}", gutter), Segment(" ", style)]
        texts = pieces[piece] if line >= 0 and piece < len(pieces) else []
        segments = [Segment(text, apart if differs else style) for text, differs in texts]
        return shown + list(Strip(segments).adjust_cell_length(width, base))
