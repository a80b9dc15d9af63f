"""Makes untrusted texts safe for a screen: plain, with characters of fixed width."""

from rollouthub.text import plain, plain_name
from rollouthub.views.terminal.text_fit import apart


def named(name: str) -> str:
    """A name in one line, safe to show."""
    return apart(plain_name(name))


def quoted(text: str, most: int) -> str:
    """A text cut to a length, which is stated if it was cut."""
    return apart(plain(text, most))
