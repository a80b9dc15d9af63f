"""The elements of a page as short lines of text."""

from collections.abc import Sequence
from typing import Any

MOST_WORDS = 1_000
"""Maximum number of characters of one element's text, or of its value."""
MOST_OPTIONS = 300
"""Maximum number of options shown of a list to choose from."""
_WRAPPERS = ("div", "span", "p", "t")
_FRAMES = ("", "wrap", "area")
"""Names of what holds the page; what only holds others has one of them, or none."""
_PLAIN = ("", "rgb(255, 255, 255)", "rgb(239, 239, 239)")
"""Backgrounds of pages and buttons that nobody has coloured."""


def listed(rows: Sequence[Sequence[Any]]) -> tuple[str, set[int]]:
    """One line for each element that is seen, below the one that holds it; and the numbers in these lines.

    What only holds others, and has no name, text or colour, is left out.
    """
    lines, refs, depths = list[str](), set[int](), [-1]
    for place, (depth, ref, tag, words, value, name, classes, box, background, is_focused) in enumerate(rows):
        while depths[-1] >= depth:
            depths.pop()
        said, colour = _said(words, value), "" if background in _PLAIN else background.replace(" ", "")
        classed = "".join(f".{each}" for each in classes.split())
        is_bare = not (said or colour or classed or is_focused) and name in _FRAMES
        is_holder = place + 1 < len(rows) and rows[place + 1][0] > depth
        if tag == "body" or (tag in _WRAPPERS and is_bare and is_holder):
            continue
        x, y, width, height = box
        named = f"#{name}" if name else ""
        parts = [f"[{ref}] {tag}{named}{classed}" if tag != "t" else "text", *said, f"at {x},{y} size {width}x{height}"]
        refs |= {ref} if tag != "t" else set()
        parts += [f"background {colour}"] if colour else []
        parts += ["focused"] if is_focused else []
        lines.append("  " * (len(depths) - 1) + " ".join(parts))
        depths.append(depth)
    return "\n".join(lines), refs


def _said(words: str, value: "str | bool | dict[str, list[str]] | None") -> list[str]:
    found = [_quoted(words)] if words else []
    if isinstance(value, dict):
        found += [f"{key} {', '.join(map(_quoted, value[key][:MOST_OPTIONS]))}" for key in ("chosen", "of")]
    elif isinstance(value, bool):
        found.append("checked" if value else "not checked")
    elif value is not None and not (value == "" and words):
        found.append(f"value {_quoted(str(value))}")
    return found


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line[:MOST_WORDS]}{"…" if len(line) > MOST_WORDS else ""}"'
