"""A document, such as a conversation: sections made of pieces, both of which can be folded."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from rich.text import Text

from rollouthub_tui.widgets.rollout.drawable_text import drawn
from rollouthub_tui.widgets.rollout.highlights import Styles, code_styles, diff_styles, json_styles, markdown_styles

Syntax = Literal["plain", "markdown", "json", "code", "diff"]


@dataclass(frozen=True, slots=True)
class Medium:
    """A picture, sound or file in the run's folder."""

    digest: str
    mime_type: str


class Piece:
    """A text under an optional heading."""

    def __init__(
        self,
        name: str,
        text: str | Text | Callable[[], str] = "",
        *,
        head: Text | None = None,
        syntax: Syntax = "plain",
        language: str = "",
        style: str = "",
        folded_rows: int | None = None,
        medium: Medium | None = None,
        indent: int = 4,
        rule: str = "",
    ) -> None:
        """`name` is unique within its section; folded, the first `folded_rows` rows are shown; with None it never
        folds. `language` is that of code; `rule` is the style of a line at the left, without which there is none.
        """
        self.language, self.rule = language, rule
        self.name, self.head, self.syntax, self.style = name, head, syntax, style
        self.folded_rows, self.medium, self.indent = folded_rows, medium, indent
        self._given = text

    @cached_property
    def text(self) -> str:
        """The text, made safe to draw; a text with its own styles is already."""
        if isinstance(self._given, Text):
            return self._given.plain
        return drawn(self._given if isinstance(self._given, str) else self._given()).rstrip("\n")

    @cached_property
    def _styles(self) -> Styles:
        if isinstance(self._given, Text):
            return Styles([(span.start, span.end, str(span.style)) for span in self._given.spans])
        match self.syntax:
            case "markdown":
                return Styles(markdown_styles(self.text))
            case "code":
                return Styles(code_styles(self.text, self.language))
            case "diff":
                return Styles(diff_styles(self.text))
            case _:
                return Styles([])

    def row(self, start: int, end: int) -> Text:
        """One row of the text, given by its range."""
        row = Text(self.text[start:end], style=self.style, no_wrap=True, end="")
        if self.syntax == "json":
            for begin, stop, style in json_styles(row.plain[:4000]):
                row.stylize(style, begin, stop)
        else:
            self._styles.put_on(row, start, end)
        return row


@dataclass
class Section:
    """A turn of a conversation, or another chapter of a document."""

    key: Hashable
    """Key of the section, unique in the document."""
    title: Callable[[int, bool], Text]
    """Gives the title line, for a width and for whether the section is open."""
    make: Callable[[], Sequence[Piece]]
    """Makes the pieces when they are first needed."""
    is_open: bool = True
    """Whether the section is open at first."""
    has_error: bool = False
    folds: bool = True
    """Whether a mark says that it can be opened and closed."""

    @cached_property
    def pieces(self) -> Sequence[Piece]:
        """The pieces of the section."""
        return self.make()


ROW_TITLE, ROW_HEAD, ROW_TEXT, ROW_MORE, ROW_GAP = range(5)

Row = tuple[int, int, int, int]
"""The row's kind, the index of its piece, and its range in the piece's text; for a heading, the end says whether it
folds.
"""
