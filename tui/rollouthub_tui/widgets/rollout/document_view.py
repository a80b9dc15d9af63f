"""The widget that shows a document; only open sections are laid out, and only visible rows drawn."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType

from rollouthub.text import plain_name
from rollouthub_tui.widgets.rollout.document import ROW_HEAD, ROW_MORE, ROW_TEXT, ROW_TITLE, Medium, Piece, Row, Section
from rollouthub_tui.widgets.rollout.rows_view import RowsView
from rollouthub_tui.widgets.rollout.section_layout import UNWRAPPED, draw, lay_out
from rollouthub_tui.widgets.rollout.text_search import Match, Matches, pattern_of


class DocumentView(RowsView):
    """Sections that fold, with a search through all of them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "fold", "Fold/unfold", show=False),
        Binding("z", "fold_all", "Fold/unfold all", show=False),
        Binding("J", "section(1)", "Next turn", show=False),
        Binding("K", "section(-1)", "Previous turn", show=False),
        Binding("enter,l", "open", "Open", show=False),
        Binding("left", "shift(-8)", "Left, where lines are not wrapped", show=False),
        Binding("right", "shift(8)", "Right, where lines are not wrapped", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.sections: Sequence[Section] = ()
        self.matches: Matches | None = None
        self.wraps = True
        self.is_folded = True
        """Whether long pieces are folded at first."""
        self.on_medium: Callable[[Medium], None] | None = None
        """Called with the picture or file that the person opens."""
        self._rows: dict[Hashable, tuple[Section, list[Row]]] = {}
        self._starts: list[int] = [0]
        self._opened: dict[Hashable, bool] = {}
        """Sections and pieces that the person has opened (True) or closed (False), by key."""
        self._shift = 0

    def show(self, sections: Sequence[Section]) -> None:
        """Replace the sections; open ones stay open, and the cursor stays in its section."""
        anchor, was_at = self._anchor(), self.cursor - self.scroll_offset.y
        self.sections = sections
        if self.matches is not None:
            self.matches = Matches.of(self.matches.pattern, sections)
        self._count(anchor, was_at)

    @property
    def row_count(self) -> int:
        """The number of rows with the present folding."""
        return self._starts[-1]

    def lay_out_again(self) -> None:
        """Lay out for a new width."""
        anchor, was_at = self._anchor(), self.cursor - self.scroll_offset.y
        self._rows.clear()
        self._count(anchor, was_at)

    def set_wraps(self, wraps: bool) -> None:
        """Set whether long lines are wrapped."""
        if wraps != self.wraps:
            self.wraps, self._shift = wraps, 0
            self.lay_out_again()

    def is_open(self, section: Section) -> bool:
        """Whether a section is open, showing more than its title."""
        return self._opened.get(section.key, section.is_open)

    def _is_piece_open(self, section: Section, piece: Piece) -> bool:
        return self._opened.get((section.key, piece.name), not self.is_folded)

    def _rows_of(self, section: Section) -> list[Row]:
        known = self._rows.get(section.key)
        if known is None or known[0] is not section:
            width = self.row_width if self.wraps else UNWRAPPED
            rows = lay_out(section, width, self.is_open(section), lambda piece: self._is_piece_open(section, piece))
            known = self._rows[section.key] = (section, rows)
        return known[1]

    def _height(self, section: Section) -> int:
        return len(self._rows_of(section)) if self.is_open(section) else 1

    def _count(self, anchor: tuple[Hashable, int] | None, was_at: int) -> None:
        self._starts = list(accumulate(map(self._height, self.sections), initial=0))
        if anchor is not None and was_at >= 0:
            key, offset = anchor
            place = next((place for place, section in enumerate(self.sections) if section.key == key), None)
            if place is not None:
                self.cursor = min(self._starts[place] + offset, self._starts[place + 1] - 1)
        self.changed()
        if anchor is not None and was_at >= 0:
            self.scroll_to(y=max(0, self.cursor - was_at), animate=False, immediate=True)

    def _anchor(self) -> tuple[Hashable, int] | None:
        if not self.sections or not self.row_count:
            return None
        place = self.section_at(self.cursor)
        return self.sections[place].key, self.cursor - self._starts[place]

    def section_at(self, row: int) -> int:
        """The index of the section that a row belongs to."""
        return max(0, min(bisect_right(self._starts, row) - 1, len(self.sections) - 1))

    @property
    def turn_at_cursor(self) -> int | None:
        """The index of the turn that the cursor is in; None in another section."""
        if not self.sections:
            return None
        match self.sections[self.section_at(self.cursor)].key:
            case ("turn", int(index)):
                return index
            case _:
                return None

    def _row_at(self, row: int) -> tuple[Section, Row]:
        place = self.section_at(row)
        section = self.sections[place]
        if not self.is_open(section):
            return section, (ROW_TITLE, -1, 0, 0)
        return section, self._rows_of(section)[row - self._starts[place]]

    def row_text(self, row: int) -> Text:
        """The text of one row, with matches marked."""
        section, shown = self._row_at(row)
        text = draw(
            section, shown, self.row_width, self.is_open(section), lambda piece: self._is_piece_open(section, piece)
        )
        kind, place, start, end = shown
        if self.matches is not None and kind == ROW_TEXT:
            style = self.get_component_rich_style("rows--match", partial=True)
            indent = section.pieces[place].indent
            for begin, stop in self.matches.within(self.section_at(row), place, start, end):
                text.stylize(style, begin + indent, stop + indent)
        return text[self._shift :] if self._shift and kind == ROW_TEXT else text

    def action_shift(self, columns: int) -> None:
        """Scroll unwrapped lines sideways."""
        if not self.wraps:
            self._shift = max(0, min(self._shift + columns, UNWRAPPED))
            self.changed()

    def action_fold(self) -> None:
        """Fold or unfold the piece at the cursor; on a title, or if the piece cannot fold, the section."""
        if not self.sections:
            return
        section, (_, place, _, _) = self._row_at(self.cursor)
        piece = section.pieces[place] if place >= 0 else None
        if piece is not None and self._folds(section, place):
            self._set_open((section.key, piece.name), not self._is_piece_open(section, piece), section)
            if not self._is_piece_open(section, piece):
                self._go_to_piece(section, place)
        else:
            self._set_open(section.key, not self.is_open(section), section)
            self.go_to(self._starts[self.section_at(self.cursor)])

    def _folds(self, section: Section, place: int) -> bool:
        """Whether a piece is long enough to fold."""
        rows = [row for row in self._rows_of(section) if row[1] == place]
        return rows[-1][0] == ROW_MORE or (rows[0][0] == ROW_HEAD and bool(rows[0][3]))

    def _go_to_piece(self, section: Section, place: int) -> None:
        start = self._starts[self.section_at(self.cursor)]
        rows = self._rows_of(section)
        self.go_to(start + next((at for at, row in enumerate(rows) if row[1] == place), 0))

    def _set_open(self, key: Hashable, is_open: bool, section: Section) -> None:
        place = self.section_at(self.cursor)
        anchor, was_at = (section.key, self.cursor - self._starts[place]), self.cursor - self.scroll_offset.y
        self._opened[key] = is_open
        self._rows.pop(section.key, None)
        if not self.is_open(section):
            anchor = (section.key, 0)
        self._count(anchor, was_at)

    def action_fold_all(self) -> None:
        """Close all sections; if all are closed, open them with all of their long pieces."""
        closes = any(self.is_open(section) for section in self.sections)
        anchor, was_at = self._anchor(), self.cursor - self.scroll_offset.y
        self.is_folded = closes
        self._opened = {section.key: not closes for section in self.sections}
        self._rows.clear()
        self._count((anchor[0], 0) if closes and anchor is not None else anchor, was_at)

    def action_section(self, step: int) -> None:
        """Go to the title of the next or previous section; backwards, first to the title of the present one."""
        if not self.sections:
            return
        place = self.section_at(self.cursor)
        if step < 0 and self.cursor > self._starts[place]:
            step += 1
        self.go_to(self._starts[max(0, min(place + step, len(self.sections) - 1))], top=True)

    def action_open(self) -> None:
        """Open the picture or file at the cursor; elsewhere, fold or unfold."""
        if not self.sections:
            return
        section, (_, place, _, _) = self._row_at(self.cursor)
        medium = section.pieces[place].medium if place >= 0 else None
        if medium is not None and self.on_medium is not None:
            self.on_medium(medium)
        else:
            self.action_fold()

    def clicked(self, row: int, column: int) -> None:
        """Go to the clicked row; a click on a title, a heading or the cursor's row opens it as Enter does."""
        was_there = row == self.cursor
        self.go_to(row)
        _, (kind, _, _, _) = self._row_at(row)
        if kind in (ROW_TITLE, ROW_HEAD) or was_there:
            self.action_open()

    def find(self, text: str | None) -> None:
        """Mark all matches of `text` and go to the first one from the cursor on; None removes the marks."""
        self.matches = Matches.of(pattern_of(text), self.sections) if text else None
        self.changed()
        if self.matches is not None and self.matches.found:
            section, (_, piece, start, _) = self._row_at(self.cursor)
            here = Match(self.section_at(self.cursor), piece, start, start)
            del section
            at = bisect_left(self.matches.found, here)
            self._go_to_match(self.matches.found[at % len(self.matches.found)])

    @property
    def match_words(self) -> str:
        """What is searched for, and which match the cursor is at; empty without a search."""
        found = self.matches
        if found is None:
            return ""
        total = f"{len(found.found):,}{'' if found.is_all else ' or more'}"
        number = f"{self._match_number(found):,} of {total}" if found.found else "no match"
        return f"/{plain_name(found.pattern.pattern)}/ {number}"

    def _match_number(self, matches: Matches) -> int:
        """The number of matches up to the end of the cursor's row."""
        if not self.sections:
            return 0
        _, (_, piece, _, end) = self._row_at(self.cursor)
        return bisect_left(matches.found, Match(self.section_at(self.cursor), piece, end, 0))

    def next_match(self, step: int) -> None:
        """Go to the next match after the cursor's row, or the previous one before it, wrapping around."""
        if self.matches is None or not self.matches.found:
            return
        _, (_, piece, start, end) = self._row_at(self.cursor)
        place, found = self.section_at(self.cursor), self.matches.found
        if step > 0:
            at = bisect_left(found, Match(place, piece, end, 0))
        else:
            at = bisect_left(found, Match(place, piece, start, 0)) - 1
        self._go_to_match(found[at % len(found)])

    def next_error(self, step: int) -> bool:
        """Go to the next or previous section with an error; returns whether there is one."""
        wrong = [place for place, section in enumerate(self.sections) if section.has_error]
        if not wrong:
            return False
        here = self.section_at(self.cursor)
        at = bisect_right(wrong, here) if step > 0 else bisect_left(wrong, here) - 1
        place = wrong[at % len(wrong)]
        self._reveal(place)
        self.go_to(self._starts[place], top=True)
        return True

    def _reveal(self, place: int, piece: int | None = None) -> None:
        section = self.sections[place]
        self._opened[section.key] = True
        if piece is not None:
            self._opened[(section.key, section.pieces[piece].name)] = True
        self._rows.pop(section.key, None)
        self._count(None, -1)

    def _go_to_match(self, match: Match) -> None:
        section = self.sections[match.section]
        if self._find_row(section, match) is None:
            self._reveal(match.section, match.piece)
        row = self._find_row(section, match)
        if row is not None:
            self.go_to(self._starts[match.section] + row)

    def _find_row(self, section: Section, match: Match) -> int | None:
        if not self.is_open(section):
            return None
        for at, (kind, piece, start, end) in enumerate(self._rows_of(section)):
            if kind == ROW_TEXT and piece == match.piece and start <= match.start <= max(start, end):
                return at
        return None
