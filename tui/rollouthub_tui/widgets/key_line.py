"""The line at the bottom with the keys that do something right here and now."""

from collections.abc import Iterable
from typing import NamedTuple

from rich.text import Text
from textual.events import Click, Resize

from rollouthub_tui.navigation import app_of
from rollouthub_tui.widgets.line_panel import LinePanel

_GAP = 2


class KeyHint(NamedTuple):
    """A key and what it does."""

    key: str
    """Textual's name of the key."""
    shown: str
    """The key as it is written."""
    word: str


_HELP = (KeyHint("question_mark", "?", "Help"), KeyHint("ctrl+p", "^p", "Palette"))


class KeyLine(LinePanel):
    """Shows as many keys as there is room for, the first ones first, and help at the right; each can be clicked."""

    DEFAULT_CSS = "KeyLine { height: 1; dock: bottom; background: $panel; color: $foreground; padding: 0 1; }"

    def __init__(self) -> None:
        super().__init__()
        self._hints: tuple[KeyHint, ...] = ()
        self._spans: list[tuple[int, int, str]] = []
        self._state: object = None

    def show_hints(self, hints: Iterable[KeyHint]) -> None:
        """Show these keys."""
        self._hints = tuple(hints)
        self._draw()

    def on_resize(self, event: Resize) -> None:
        """Fit the line to the new width."""
        self._draw()

    def _draw(self) -> None:
        width = self.content_size.width
        if not width or self._state == (state := (width, self._hints)):
            return
        self._state = state
        help_width = _width(_HELP)
        room = width - help_width - _GAP
        line, self._spans = Text(no_wrap=True, end=""), []
        for hint in self._hints:
            if line.cell_len + _width([hint]) > room:
                break
            self._put(line, hint)
        line.append(" " * max(0, width - help_width - line.cell_len))
        for hint in _HELP:
            self._put(line, hint)
        self.replace(line)

    def _put(self, line: Text, hint: KeyHint) -> None:
        start = line.cell_len
        line.append(hint.shown, "bold bright_blue").append(f" {hint.word}")
        self._spans.append((start, line.cell_len, hint.key))
        line.append(" " * _GAP)

    def on_click(self, event: Click) -> None:
        """Press the key that was clicked."""
        at = event.x - self.styles.padding.left
        for start, end, key in self._spans:
            if start <= at < end:
                app_of(self).simulate_key(key)


def _width(hints: Iterable[KeyHint]) -> int:
    return sum(Text(f"{hint.shown} {hint.word}").cell_len + _GAP for hint in hints)
