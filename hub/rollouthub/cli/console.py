"""Consoles of the command line: results on stdout, progress on stderr; lines are wrapped only to fit a terminal."""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.text import Text

from rollouthub.text import plain

PIPE_WIDTH = 100_000
"""Width in columns where there is no terminal, so that no line that a script searches is cut or wrapped."""


class PlainConsole(Console):
    """A console that prints text literally: no markup is interpreted, and control characters are made harmless."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with control characters removed from all text; only rich's own control codes remain."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def results() -> PlainConsole:
    """A console on stdout, for the output of the command."""
    return PlainConsole(width=None if sys.stdout.isatty() else PIPE_WIDTH)


def remarks() -> PlainConsole:
    """A console on stderr, for progress and remarks."""
    return PlainConsole(stderr=True, width=None if sys.stderr.isatty() else PIPE_WIDTH)


def warn(line: str) -> None:
    """Print a warning to stderr, also under `--quiet`."""
    remarks().print(Text.assemble(("warning: ", "yellow"), line))
