"""Text of records made fit to be drawn: every character of a width that all terminals agree on."""

from rollouthub.text import one_line, printable


def drawn(text: str) -> str:
    """The text as it can be put on a screen, of any length: lines end with a newline alone, and hold no tabs."""
    return printable(text).expandtabs(4)


def drawn_line(text: str, most: int = 200) -> str:
    """The beginning of the text on one line."""
    return one_line(text, most)
