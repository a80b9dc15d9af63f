"""Lines at the foot of the terminal that are drawn again in place, below whatever is printed meanwhile."""

import sys
from collections.abc import Sequence
from typing import TextIO, cast

from rich.console import Console, ConsoleRenderable, RenderHook
from rich.control import Control
from rich.file_proxy import FileProxy
from rich.segment import ControlType
from rich.text import Text

_ERASE = 2
"""A whole line."""


class Foot(RenderHook):
    """A few lines, none of them wider than the terminal was when they were drawn.

    The cursor stays visible, so that however the process ends, nobody's terminal is left without one.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: Sequence[Text] = ()
        self._drawn: list[int] = []
        """Cells of each line that is on the screen."""
        self._shown: tuple[int, list[Text]] | None = None
        self._streams: tuple[TextIO, TextIO] | None = None

    def start(self) -> None:
        """Begin; what others print from now on goes above."""
        self._console.push_render_hook(self)
        self._streams = sys.stdout, sys.stderr
        sys.stdout = cast(TextIO, FileProxy(self._console, sys.stdout))
        sys.stderr = cast(TextIO, FileProxy(self._console, sys.stderr))

    def draw(self, lines: Sequence[Text]) -> None:
        """Show these lines in place of the ones before; the same ones cost nothing."""
        shown = (self._console.width, list(lines))
        if shown != self._shown:
            self._shown, self._lines = shown, lines
            self._console.print(Control())

    def stop(self, lines: Sequence[Text]) -> None:
        """End, and leave these lines there."""
        self.draw(lines)
        if self._streams is not None:
            sys.stdout, sys.stderr = self._streams
            self._streams = None
        self._console.pop_render_hook()
        if self._drawn:
            self._console.line()
        self._drawn = []

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """What the console prints in place of what it was told to."""
        above = self._erased()
        foot = Text("\n", end="", no_wrap=True, overflow="crop").join(self._lines)
        foot.end = ""
        self._drawn = [line.cell_len for line in self._lines]
        return [above, *renderables, foot]

    def _erased(self) -> Control:
        """Go back to the first line, erasing; lines of a terminal that was made narrower since take several rows."""
        width = max(1, self._console.width)
        rows = sum(max(1, -(-cells // width)) for cells in self._drawn)
        up = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, _ERASE))
        if not rows:
            return Control()
        return Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, _ERASE), *(up * (rows - 1)))
