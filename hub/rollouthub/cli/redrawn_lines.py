"""Lines at the bottom of the terminal that are redrawn in place while other output is printed above them."""

import sys
from collections.abc import Sequence
from typing import TextIO, cast

from rich.console import Console, ConsoleRenderable, RenderHook
from rich.control import Control
from rich.file_proxy import FileProxy
from rich.segment import ControlType
from rich.text import Text

_ERASE = 2
"""Mode of ERASE_IN_LINE that clears a whole line."""


class Foot(RenderHook):
    """Lines that are redrawn in place at the bottom of the terminal.

    The cursor stays visible, so that the terminal has one however the process ends.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: Sequence[Text] = ()
        self._drawn: list[int] = []
        """Width in cells of each line on the screen."""
        self._shown: tuple[int, list[Text]] | None = None
        self._streams: tuple[TextIO, TextIO] | None = None

    def start(self) -> None:
        """Start drawing; from now on other output to stdout and stderr appears above the lines."""
        self._console.push_render_hook(self)
        self._streams = sys.stdout, sys.stderr
        sys.stdout = cast(TextIO, FileProxy(self._console, sys.stdout))
        sys.stderr = cast(TextIO, FileProxy(self._console, sys.stderr))

    def draw(self, lines: Sequence[Text]) -> None:
        """Replace the lines; nothing is drawn if neither they nor the terminal's width changed."""
        shown = (self._console.width, list(lines))
        if shown != self._shown:
            self._shown, self._lines = shown, lines
            self._console.print(Control())

    def stop(self, lines: Sequence[Text]) -> None:
        """Draw these lines a last time, leave them on the screen, and restore stdout and stderr."""
        self.draw(lines)
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams
            self._streams = None
        self._console.pop_render_hook()
        if self._drawn:
            self._console.line()
        self._drawn = []

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Add to what the console prints: erase the old lines before it, and draw the lines after it."""
        above = self._erased()
        foot = Text("\n", end="", no_wrap=True, overflow="crop").join(self._lines)
        foot.end = ""
        self._drawn = [line.cell_len for line in self._lines]
        return [above, *renderables, foot]

    def _erased(self) -> Control:
        """Move to the first drawn line and erase all; on a terminal that became narrower, a line takes several rows."""
        width = max(1, self._console.width)
        rows = sum(max(1, -(-cells // width)) for cells in self._drawn)
        up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, _ERASE))
        if not rows:
            return Control()
        return Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, _ERASE), *(up * (rows - 1)))
