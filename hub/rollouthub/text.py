"""Makes text of agents, models, tools and servers safe to show, for screens, logs and pages.

`plain` keeps line breaks and all languages, `printable` only characters that every screen draws alike, `one_line` fits
a sentence or a table cell, `escaped` drops nothing. Each takes time proportional to the characters it reads.
"""

import json
import re
from collections.abc import Callable

NAME_CHARACTERS = 120
"""Most characters shown of a name, such as a tool's, because an agent can invent one."""
LINE_CHARACTERS = 400
"""Most characters quoted on one line, by default."""

_HARMFUL = re.compile(  # begins with a class, which is searched for five times faster than alternatives are
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u2069\ufeff"  # unseen, or turn what follows around
    "\ud800-\udfff\U000e0000-\U000e007f]"
    "(?:(?<=\x1b)(?:"
    "\\[[0-?]*+[ -/]*+[@-~]"  # control sequences: colours, cursor
    "|\\][^\x07\x1b\x9c]*+(?:\x07|\x1b\\\\|\x9c)?"  # commands to the terminal: title, clipboard, links
    "|[PX^_][^\x1b\x9c]*+(?:\x1b\\\\|\x9c)?"  # strings for devices
    "|[ -/]*+[0-~]?)"
    "|(?<=\x9b)[0-?]*+[ -/]*+[@-~]"  # the same where one character begins them
    "|(?<=\x9d)[^\x07\x1b\x9c]*+(?:\x07|\x1b\\\\|\x9c)?"
    "|(?<=[\x90\x98\x9e\x9f])[^\x1b\x9c]*+(?:\x1b\\\\|\x9c)?)?"
)
_UNSEEN = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200c\u200d\u206a-\u206f\u3164\ufe00-\ufe0f\uffa0"
    "\ufff9-\ufffb\U000e0080-\U000e0fff]"
)
"""Characters that are invisible, or join their neighbours on some screens and not on others."""
_MARKS = (
    "[\u0300-\u036f\u0483-\u0489\u0610-\u061a\u064b-\u065f\u0e31-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff"
    "\ufe20-\ufe2f]"
)
_STACK = re.compile(f"({_MARKS}{{3}}){_MARKS}+")
"""More combining marks on one letter than any language needs: they would cover the lines around."""

_FEW = 16
"""Number of distinct characters up to which one `replace` for each is faster than one pass over the text."""


def plain(text: str, most: int | None = None) -> str:
    """The text without escape sequences, bidi marks and control characters but newline and tab.

    Text longer than `most` characters is cut, and says how long it was.
    """
    cut = text if most is None else text[: 2 * most]
    if not cut.isprintable():  # what is has none of these, and most names are
        cut = _HARMFUL.sub("", cut)
    if most is None or (len(text) <= most and len(cut) <= most):
        return cut
    return f"{cut[:most]} … [{len(text)} characters in all]"


def printable(text: str, most: int | None = None) -> str:
    """`plain` text in which every character is drawn: joining and hiding characters are dropped, others that are not
    drawn become `�`.
    """
    cleaned = plain(text, most)
    if cleaned.isascii():
        return cleaned
    return _replaced(_STACK.sub(r"\1", _UNSEEN.sub("", cleaned)), _mark)


def one_line(text: str, most: int = LINE_CHARACTERS) -> str:
    """`printable` text on one line of at most `most` characters; `…` ends it where it was cut."""
    line = " ".join(printable(text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"


def plain_name(text: str) -> str:
    """`one_line` for a name, at most `NAME_CHARACTERS` long."""
    return one_line(text, NAME_CHARACTERS)


def escaped(text: str) -> str:
    r"""The text with unprintable characters, except newline and tab, written as JSON escapes: `\u001b`.

    JSON text keeps its meaning, and nothing is dropped.
    """
    return _replaced(text, _escape)


def _mark(letter: str) -> str:
    return " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}"


def _escape(letter: str) -> str:
    return json.dumps(letter)[1:-1]


def _replaced(text: str, replacement: Callable[[str], str]) -> str:
    """The text with every unprintable character, except newline and tab, replaced."""
    odd = {each for each in set(text) if not each.isprintable()} - {"\n", "\t"}
    if len(odd) > _FEW:
        return "".join([replacement(each) if each in odd else each for each in text])
    for each in odd:
        text = text.replace(each, replacement(each))
    return text
