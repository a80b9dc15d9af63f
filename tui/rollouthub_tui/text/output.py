"""Writes lines of printable text, whatever characters they come with."""

from collections.abc import Iterable
from typing import TextIO

from rollouthub_tui.text.speakable_text import spoken

_LONGEST = 1000
"""Most characters of a line; a longer one is continued on the next."""


class Output:
    """Writes lines to a stream, and problems to another."""

    def __init__(self, out: TextIO, err: TextIO | None = None) -> None:
        """`err` receives messages about failed commands; None writes them among the other lines."""
        self._out, self._err = out, err
        self.is_refused = False
        """Whether any command failed."""

    def say(self, text: str) -> None:
        """Write a text of one or several lines."""
        self.say_all((text,))

    def say_all(self, lines: Iterable[str]) -> None:
        """Write lines as they come."""
        for line in lines:
            _write(self._out, line)
        self._out.flush()

    def complain(self, text: str) -> None:
        """Write why a command failed."""
        self.is_refused = True
        self.warn(text)

    def warn(self, text: str) -> None:
        """Write a warning: to the error stream if there is one, else among the other lines."""
        stream = self._err or self._out
        self._out.flush()
        _write(stream, text)
        stream.flush()

    def ask(self, question: str) -> None:
        """Write a prompt, without a line break."""
        self._out.write(spoken(question))
        self._out.flush()


def _write(stream: TextIO, text: str) -> None:
    for line in spoken(text).split("\n"):
        for start in range(0, len(line) or 1, _LONGEST):
            stream.write(line[start : start + _LONGEST].rstrip() + "\n")
