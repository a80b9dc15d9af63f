"""Makes texts of records safe to draw: each character has the same width on all terminals."""

from rollouthub.text import one_line, printable


def drawn(text: str) -> str:
    """The whole text, safe to draw: lines end with a newline only, and there are no tabs."""
    return printable(text).expandtabs(4)


def drawn_line(text: str, most: int = 200) -> str:
    """The beginning of the text in one line, safe to draw."""
    return one_line(text, most)
