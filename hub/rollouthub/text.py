"""Text of agents, models and tools made plain: it may be anything, and must not drive anybody's terminal."""

import json
import re

NAME_CHARACTERS = 120
"""Of what is shown as a name, such as a tool's: an agent makes them up, too."""

_ESCAPES = re.compile(
    "(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    "|(?:\x1b\\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # commands to the terminal: title, clipboard, links
    "|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\\\|\x9c)?"  # strings for devices
    "|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff"  # unseen, or turn what follows around
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def plain(text: str, most: int) -> str:
    """The text without escapes and control characters but newline and tab, cut to a length, which it then says."""
    cut = text[: 2 * most]
    if not cut.isprintable():  # what is has none of these, and most names are
        cut = _CONTROLS.sub("", _ESCAPES.sub("", cut))
    if len(text) <= most and len(cut) <= most:
        return cut
    return f"{cut[:most]} … [{len(text)} characters in all]"


def plain_json(text: str) -> str:
    """JSON that shows as it is: what could drive a terminal is written as escapes, which mean the same."""
    return _CONTROLS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def plain_name(text: str) -> str:
    """The same on one line."""
    return " ".join(plain(text, NAME_CHARACTERS).split())
