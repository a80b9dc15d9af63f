"""Where lines go: nothing but printable text and newlines, whatever they were made of."""

from collections.abc import Iterable
from typing import TextIO

from rollouthub_tui.text.speakable_text import spoken

_LONGEST = 1000
"""Characters of a line; the rest of a longer one is on the lines after it."""


class Output:
    """Lines, top to bottom."""

    def __init__(self, out: TextIO, err: TextIO | None = None) -> None:
        """`err` is told what was not done; without it, that is among the other lines."""
        self._out, self._err = out, err
        self.is_refused = False
        """Whether anything was not done."""

    def say(self, text: str) -> None:
        """A line; or several, where the text has several."""
        self.say_all((text,))

    def say_all(self, lines: Iterable[str]) -> None:
        """Lines, as they come."""
        for line in lines:
            _write(self._out, line)
        self._out.flush()

    def complain(self, text: str) -> None:
        """Why something was not done."""
        self.is_refused = True
        self.warn(text)

    def warn(self, text: str) -> None:
        """What is wrong besides."""
        stream = self._err or self._out
        self._out.flush()
        _write(stream, text)
        stream.flush()

    def ask(self, question: str) -> None:
        """What stands before what a person types."""
        self._out.write(spoken(question))
        self._out.flush()


def _write(stream: TextIO, text: str) -> None:
    for line in spoken(text).split("\n"):
        for start in range(0, len(line) or 1, _LONGEST):
            stream.write(line[start : start + _LONGEST].rstrip() + "\n")
