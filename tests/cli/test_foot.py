"""Lines at the foot of a terminal, seen by a terminal."""

import io
import sys

import pyte
import pytest
from rich.console import Console
from rich.text import Text

from rollouthub.cli.redrawn_lines import Foot


class Seen:
    """A terminal, and a console that prints to it."""

    def __init__(self, width: int, height: int) -> None:
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.Stream(self._screen)
        self._file = io.StringIO()
        self.console = Console(file=self._file, force_terminal=True, width=width, height=height, color_system=None)

    @property
    def raw(self) -> str:
        """What it was told since the last look."""
        return self._file.getvalue()

    @property
    def rows(self) -> list[str]:
        """What can be seen, without what is empty at the end."""
        self._stream.feed(self.raw.replace("\n", "\r\n"))
        self._file.seek(0)
        self._file.truncate()
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip().split("\n")


def texts(*lines: str) -> list[Text]:
    """Lines."""
    return [Text(line) for line in lines]


def test_it_is_drawn_in_place_below_what_is_printed_meanwhile(capsys: pytest.CaptureFixture[str]) -> None:
    seen = Seen(30, 10)
    foot = Foot(seen.console)
    foot.start()
    foot.draw(texts("one", "two", "three"))
    seen.console.print("a note")
    assert seen.rows == ["a note", "one", "two", "three"]
    foot.draw(texts("ONE", "TWO"))
    sys.stdout.write("printed by an environment\n")
    sys.stderr.write("and its complaint\n")
    assert seen.rows == ["a note", "printed by an environment", "and its complaint", "ONE", "TWO"]
    foot.stop(texts("the end"))
    seen.console.print("afterwards")
    sys.stdout.write("is printed as ever\n")
    assert seen.rows == ["a note", "printed by an environment", "and its complaint", "the end", "afterwards"]
    assert capsys.readouterr().out == "is printed as ever\n"


def test_what_is_the_same_is_not_drawn_again() -> None:
    seen = Seen(30, 10)
    foot = Foot(seen.console)
    foot.start()
    foot.draw(texts("one"))
    assert seen.rows == ["one"]
    foot.draw(texts("one"))
    assert seen.raw == ""
    foot.stop([])
    assert seen.rows == [""]


def test_a_terminal_that_was_made_narrower_is_cleared_of_the_rows_that_its_lines_take_now() -> None:
    seen = Seen(30, 10)
    foot = Foot(seen.console)
    foot.start()
    foot.draw(texts("a" * 29, "b"))
    seen.console.width = 10
    foot.draw(texts("c"))
    # Three rows of the first line, wrapped, and one of the second: three above the one the cursor is in.
    assert seen.raw.count("\x1b[1A") == 3
    foot.stop([])
