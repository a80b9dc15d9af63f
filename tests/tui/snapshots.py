"""Pictures of screens, held against those that are kept: tests/tui/snapshots/NAME.svg.

What Textual draws is written anew: without its random names, fonts and window, a line of the file for each piece of the
screen, so that a difference can be read. `ROLLOUTHUB_UPDATE_SNAPSHOTS=1 pytest tests/tui` keeps what is drawn now.
"""

import difflib
import os
import re
from collections.abc import Iterator
from html import escape, unescape
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.cells import cell_len
from textual.app import App

KEPT = Path(__file__).parent / "snapshots"
UPDATE = "ROLLOUTHUB_UPDATE_SNAPSHOTS"
_CELL, _LINE = 12.2, 24.4
"""Pixels of a cell, and of a line, in Textual's drawings."""
_BLANK = "\u00a0"
"""Some viewers would draw several ordinary blanks as one."""
_STYLE = re.compile(r"-(r\d+) \{ ([^}]*?) \}")
_RECT = re.compile(r'<rect fill="([^"]+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"')
_SIZE = re.compile(r'clip-terminal">\s*<rect x="0" y="0" width="([\d.]+)" height="([\d.]+)"')
_TEXT = re.compile(r'<text class="\S+?-(r\d+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"[^>]*>([^<]*)</text>')
_PIECE = re.compile(r'<(?:rect fill|text class)="([^"]+)" x="([\d.]+)" y="([\d.]+)"[^>]*?(?:/>|>([^<]*)<)')


class Album:
    """Looks at screens under names, and fails at the end of the block when one is not as it was kept."""

    def __init__(self) -> None:
        self._problems: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            assert not self._problems, "\n\n".join([*self._problems, f"if that is meant: {UPDATE}=1"])

    def look(self, app: App[Any], name: str) -> None:
        """Hold what the app shows now against the picture of that name."""
        drawn = compact(app.export_screenshot())
        path, beside = KEPT / f"{name}.svg", KEPT / f"{name}.new.svg"
        if os.environ.get(UPDATE):
            path.write_text(drawn)
        kept = path.read_text() if path.exists() else ""
        if kept == drawn:
            beside.unlink(missing_ok=True)
            return
        beside.write_text(drawn)
        self._problems.append(f"{name} is drawn otherwise; see {beside}\n{difference(kept, drawn)}")


def compact(svg: str) -> str:
    """A drawing of Textual's as the same one whatever the time and the process, a piece on each line."""
    styles: dict[str, str] = dict(_STYLE.findall(svg))
    pieces = list(_pieces(svg))
    used = {style: f"c{place}" for place, style in enumerate(dict.fromkeys(styles[name] for name, *_ in pieces))}
    width, height = (float(size) for size in _SIZE.findall(svg)[0])
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height:.1f}">',
        "<style>text { font: 20px monospace; white-space: pre }",
        *(f".{name} {{ {style} }}" for style, name in used.items()),
        "</style>",
    ]
    for fill, x, y, width in _rectangles(svg):
        drawn.append(f'<rect fill="{fill}" x="{x:.1f}" y="{y - 1.5:.1f}" width="{width:.1f}" height="24.7"/>')
    for name, x, y, length, text in pieces:
        place = f'x="{x:.1f}" y="{y:.1f}" textLength="{length:.1f}"'
        drawn.append(f'<text class="{used[styles[name]]}" {place}>{escape(text, quote=False)}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def _pieces(svg: str) -> Iterator[tuple[str, float, float, float, str]]:
    """Style, place, length and words of every piece of text; how a line was cut into pieces makes no difference."""
    styles: dict[str, str] = dict(_STYLE.findall(svg))
    before: tuple[str, float, float, float, str] | None = None
    for name, x, y, length, text in _bare(svg):
        if before is not None and (styles[before[0]], before[2]) == (styles[name], y):
            gap = round((x - before[1] - before[3]) / _CELL)
            before = (before[0], before[1], y, x + length - before[1], f"{before[4]}{_BLANK * gap}{text}")
            continue
        if before is not None:
            yield before
        before = (name, x, y, length, text)
    if before is not None:
        yield before


def _bare(svg: str) -> Iterator[tuple[str, float, float, float, str]]:
    """The pieces as they were drawn, without the blanks around them."""
    for name, x, y, length, text in _TEXT.findall(svg):
        words = unescape(text).replace(_BLANK, " ").rstrip()
        if words:
            ahead = len(words) - len(words.lstrip())
            behind = len(unescape(text)) - len(words)
            said = words.lstrip().replace(" ", _BLANK)
            yield name, float(x) + ahead * _CELL, float(y), float(length) - (ahead + behind) * _CELL, said


def _rectangles(svg: str) -> Iterator[tuple[str, float, float, float]]:
    """Colour, place and width of what lies behind the words; neighbours of one colour are one."""
    before: tuple[str, float, float, float] | None = None
    for fill, x, y, width in ((fill, float(x), float(y), float(width)) for fill, x, y, width in _RECT.findall(svg)):
        if before is not None and before[::2] == (fill, y) and abs(before[1] + before[3] - x) < 1:
            before = (fill, before[1], y, before[3] + width)
            continue
        if before is not None:
            yield before
        before = (fill, x, y, width)
    if before is not None:
        yield before


def _line(y: float) -> int:
    return round((y - 18.5) / _LINE)


def lines_of(drawn: str) -> list[str]:
    """The words of a compact drawing, line by line; every character where its cell is."""
    lines: dict[int, str] = {}
    for kind, x, y, text in _PIECE.findall(drawn):
        if not kind.startswith("#"):
            line = lines.get(_line(float(y)), "")
            line += " " * (round(float(x) / _CELL) - cell_len(line))
            lines[_line(float(y))] = line + unescape(text).replace(_BLANK, " ")
    return [lines.get(line, "").rstrip() for line in range(max(lines, default=-1) + 1)]


def difference(kept: str, drawn: str) -> str:
    """How two compact drawings differ, in words first, and where those are the same in colours."""
    before, after = lines_of(kept), lines_of(drawn)
    if before != after:
        return "\n".join(difflib.unified_diff(before, after, "kept", "drawn", lineterm="", n=1))
    changed = difflib.unified_diff(_coloured(kept), _coloured(drawn), "kept", "drawn", lineterm="", n=0)
    return "the words are the same, but:\n" + "\n".join(list(changed)[:40])


def _coloured(drawn: str) -> list[str]:
    """Every piece with what its class means, so that another class alone is no difference."""
    styles: dict[str, str] = dict(re.findall(r"^\.(c\d+) \{ (.*) \}$", drawn, re.MULTILINE))
    return [
        f"line {_line(float(y)) + 1}, cell {round(float(x) / _CELL)}: {styles.get(kind, kind)}  {unescape(text)!r}"
        for kind, x, y, text in _PIECE.findall(drawn)
    ]
