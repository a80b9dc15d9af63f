"""Text of records made fit to be drawn: plain, and every character of a width that all terminals agree on."""

import re

from rollouthub.text import plain

_ODD_ASCII = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u2065\u206a-\u206f\u3164\ufe00-\ufe0f\uffa0"
    "\ufff9-\ufffb\U000e0100-\U000e01ef]"
)
"""Drawn by nothing, or joining what stands around them in some terminals and not in others."""
_MARKS = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_STACK = re.compile(f"({_MARKS}{{2}}){_MARKS}+")
_ODD = re.compile(r"[^\S\n ]|[\ue000-\uf8ff\ufffe\uffff\U000f0000-\U0010ffff]")


def drawn(text: str) -> str:
    """The text as it can be put on a screen, of any length: lines end with a newline alone, and hold no tabs."""
    if text.isascii():
        cleaned = plain(text, len(text)) if _ODD_ASCII.search(text) else text
        return cleaned.expandtabs(4) if "\t" in cleaned else cleaned
    cleaned = _STACK.sub(r"\1", _UNSEEN.sub("", plain(text, len(text)))).expandtabs(4)
    return _ODD.sub(lambda odd: " " if odd[0].isspace() else "\ufffd", cleaned)


def drawn_line(text: str, most: int = 200) -> str:
    """The beginning of the text on one line."""
    return " ".join(drawn(text[: 4 * most]).split())[:most]
