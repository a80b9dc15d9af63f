"""Words of others, made fit to stand on a screen: plain, and every character as wide as it is alone."""

from rollouthub.text import plain, plain_name
from rollouthub.views.terminal.text_fit import apart


def named(name: str) -> str:
    """A name, on one line."""
    return apart(plain_name(name))


def quoted(text: str, most: int) -> str:
    """A text, cut to a length, which it then says."""
    return apart(plain(text, most))
