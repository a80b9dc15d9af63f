"""Text made fit to be read aloud or felt: printable characters, and none of those that only draw."""

import re

from rollouthub_tui.widgets.rollout.drawable_text import drawn

_ACROSS, _UP = "─━┄┅┈┉╌╍═╴╶╸╺╼╾", "│┃┆┇┊┋╎╏║╵╷╹╻╽╿"
_DRAWINGS = {
    **dict.fromkeys(range(0x2500, 0x2580), "+"),  # corners and crossings, but for those that follow
    **dict.fromkeys(map(ord, _ACROSS), "-"),
    **dict.fromkeys(map(ord, _UP), "|"),
    ord("╱"): "/",
    ord("╲"): "\\",
    ord("╳"): "x",
    **dict.fromkeys((*range(0x2580, 0x25A0), *range(0x1FB00, 0x1FC00)), "#"),
    **dict.fromkeys(range(0x2801, 0x2900), "."),
    0x2800: " ",
}
"""A box's lines, blocks and braille are spelt out one by one by what reads them; what is typed instead is short."""
_MARKS = re.compile("(?<![^\\s,;(])[▼▲▽△●✗○◐►‖▷✓■†▾▸▶◔◆▣◌] +")
_MARK_FIRST = re.compile(r"^[!?=] +")
_WORDS = {" · ": ", ", "−": "minus", "×": "times"}


def spoken(text: str) -> str:
    """Anybody's text, harmless and of printable characters and newlines alone."""
    return drawn(text).translate(_DRAWINGS)


def sentence(drawing: str) -> str:
    """A line that was made for a screen as words alone: its marks, which have a word each, and its gaps left out."""
    said = _MARK_FIRST.sub("", _MARKS.sub("", drawing.strip()))
    for sign, word in _WORDS.items():
        said = said.replace(sign, word)
    return re.sub(r" {2,}", ", ", said)


def lasting(seconds: float) -> str:
    """A time, in units that are read as words."""
    whole = max(0, round(seconds))
    for unit, scale, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= scale:
            rest = whole % scale // part
            return f"{whole // scale} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def pace(rate: float) -> str:
    """Rollouts a second; of slow ones, a minute or an hour."""
    for unit, scale in (("second", 1), ("minute", 60)):
        if rate * scale >= 1:
            return f"{rate * scale:,.1f} per {unit}"
    return f"{rate * 3600:,.1f} per hour"
