"""What is read in one go, such as a conversation: sections of pieces, both of which fold."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rich.text import Text

from rollouthub_tui.widgets.rollout.drawable_text import drawn
from rollouthub_tui.widgets.rollout.highlights import Styles, json_styles, markdown_styles

Syntax = Literal["plain", "markdown", "json"]


@dataclass(frozen=True, slots=True)
class Medium:
    """A picture, sound or file that lies in the run's folder."""

    digest: str
    mime_type: str


class Piece:
    """A stretch of text under a line that says what it is."""

    def __init__(
        self,
        name: str,
        text: str | Text | Callable[[], str] = "",
        *,
        head: Text | None = None,
        syntax: Syntax = "plain",
        style: str = "",
        folded_rows: int | None = None,
        medium: Medium | None = None,
        indent: int = 4,
    ) -> None:
        """`name` is its own within its section; `folded_rows` are shown while it is folded, and None never folds."""
        self.name, self.head, self.syntax, self.style = name, head, syntax, style
        self.folded_rows, self.medium, self.indent = folded_rows, medium, indent
        self._given = text

    @cached_property
    def text(self) -> str:
        """Fit to be drawn; a text with styles of its own is so already."""
        if isinstance(self._given, Text):
            return self._given.plain
        return drawn(self._given if isinstance(self._given, str) else self._given()).rstrip("\n")

    @cached_property
    def _styles(self) -> Styles:
        if isinstance(self._given, Text):
            return Styles([(span.start, span.end, str(span.style)) for span in self._given.spans])
        return Styles(markdown_styles(self.text) if self.syntax == "markdown" else [])

    def row(self, start: int, end: int) -> Text:
        """A row of it."""
        row = Text(self.text[start:end], style=self.style, no_wrap=True, end="")
        if self.syntax == "json":
            for begin, stop, style in json_styles(row.plain[:4000]):
                row.stylize(style, begin, stop)
        else:
            self._styles.put_on(row, start, end)
        return row


@dataclass
class Section:
    """A turn of a conversation, or a chapter of something else."""

    key: Hashable
    """Its own in the document."""
    title: Callable[[int, bool], Text]
    """Its line, for a width, and for whether it is open."""
    make: Callable[[], Sequence[Piece]]
    """Asked once it is opened."""
    is_open: bool = True
    """Whether it begins so."""
    has_error: bool = False

    @cached_property
    def pieces(self) -> Sequence[Piece]:
        """What is in it."""
        return self.make()


ROW_TITLE, ROW_HEAD, ROW_TEXT, ROW_MORE, ROW_GAP = range(5)

Row = tuple[int, int, int, int]
"""Its kind, its piece, and where in the piece's text it begins and ends; of a head, the end says whether it folds."""
