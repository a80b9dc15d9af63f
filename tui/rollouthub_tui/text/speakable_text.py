"""Makes text suitable for speech and braille: printable characters without decoration."""

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
"""Box-drawing, block and braille characters, which screen readers spell out one by one, and short replacements."""
_MARKS = re.compile("(?<![^\\s,;(])[▼▲▽△●✗⊘▪○◐►‖▷✓■†▾▸▶◔◆▣◌★] +")
_MARK_FIRST = re.compile(r"^[!?=] +")
_WORDS = {" · ": ", ", "−": "minus", "×": "times"}


def spoken(text: str) -> str:
    """A text of any origin, reduced to printable characters and newlines."""
    return drawn(text).translate(_DRAWINGS)


def sentence(drawing: str) -> str:
    """A line made for a screen as words alone: marks that stand beside a word, and gaps, are removed."""
    said = _MARK_FIRST.sub("", _MARKS.sub("", drawing.strip()))
    for sign, word in _WORDS.items():
        said = said.replace(sign, word)
    return re.sub(r" {2,}", ", ", said)


def lasting(seconds: float) -> str:
    """A duration with units that are read as words."""
    whole = max(0, round(seconds))
    for unit, scale, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= scale:
            rest = whole % scale // part
            return f"{whole // scale} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def pace(rate: float) -> str:
    """Rollouts per second; for slow runs, per minute or hour."""
    for unit, scale in (("second", 1), ("minute", 60)):
        if rate * scale >= 1:
            return f"{rate * scale:,.1f} per {unit}"
    return f"{rate * 3600:,.1f} per hour"
