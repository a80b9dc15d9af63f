"""Where the command line prints: stdout for results, stderr for progress; bounded by nothing but a terminal."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.text import Text

from rollouthub.text import plain

PIPE_WIDTH = 100_000
"""Columns where no terminal is: what a script looks for is neither cut off nor broken over two lines."""


class PlainConsole(Console):
    """Prints words as they are: what a task, an id or a run holds is neither markup nor drives the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, without what drives a terminal but rich's own."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def results() -> PlainConsole:
    """For what a command was asked for."""
    return PlainConsole(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def remarks() -> PlainConsole:
    """For progress and remarks."""
    return PlainConsole(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH)


def warn(line: str) -> None:
    """Say what also those want to know who asked for quiet."""
    remarks().print(Text.assemble(("warning: ", "yellow"), line))
