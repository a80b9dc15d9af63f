"""Styles for texts: Markdown (as far as it helps reading), code blocks, JSON. The text itself is unchanged."""

import re
from bisect import bisect_left, bisect_right

from rich.syntax import Syntax as CodeSyntax
from rich.text import Text

Styled = tuple[int, int, str]
"""A range of the text and its Rich style; ranges do not overlap."""

LONGEST = 24_000
"""Most characters of a text that is styled; a longer one is shown plain."""
_LANGUAGES = {
    **dict.fromkeys(("python", "py", "python3"), "python"),
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console"), "bash"),
    **dict.fromkeys(("javascript", "js", "jsx"), "javascript"),
    **dict.fromkeys(("typescript", "ts", "tsx"), "typescript"),
    **dict.fromkeys(("c++", "cpp", "cc"), "cpp"),
    **{name: name for name in ("c", "rust", "go", "java", "sql", "html", "xml", "yaml", "toml", "diff", "json", "ini")},
}
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)[ ]*([\w+#.-]*)[^\n]*$", re.MULTILINE)
_MARKDOWN = re.compile(
    r"^(?P<heading>#{1,6} [^\n]*)$"
    r"|^(?P<quote>>[^\n]*)$"
    r"|^(?P<rule> {0,3}(?:-{3,}|\*{3,}|_{3,}))$"
    r"|^ {0,12}(?P<bullet>[-*+]|\d{1,3}[.)]) (?=\S)"
    r"|(?P<code>`[^`\n]{1,400}`)"
    r"|(?P<bold>\*\*[^*\n]{1,400}\*\*|__[^_\n]{1,400}__)"
    r"|(?P<slanted>(?<![\w*])\*[^*\s\n][^*\n]{0,400}\*(?!\w))",
    re.MULTILINE,
)
_MARKDOWN_STYLES = {
    "heading": "bold underline",
    "quote": "italic",
    "rule": "dim",
    "bullet": "bold cyan",
    "code": "cyan",
    "bold": "bold",
    "slanted": "italic",
}
_JSON = re.compile(
    r'(?P<key>"(?:[^"\\\n]|\\.){0,2000}"(?=\s*:))|(?P<string>"(?:[^"\\\n]|\\.)*"?)'
    r"|(?P<number>-?\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)|(?P<word>\b(?:true|false|null)\b)"
)
_JSON_STYLES = {"key": "blue", "string": "green", "number": "cyan", "word": "magenta"}


def json_styles(text: str) -> list[Styled]:
    """The styles of a line of JSON, or of a part of one."""
    return [(found.start(), found.end(), _JSON_STYLES[found.lastgroup or "word"]) for found in _JSON.finditer(text)]


def markdown_styles(text: str) -> list[Styled]:
    """The styles of a Markdown text; none for a long one."""
    if len(text) > LONGEST:
        return []
    styles: list[Styled] = []
    at, opening = 0, _FENCE.search(text)
    while opening is not None:
        styles += _prose(text, at, opening.start())
        closing = next((each for each in _FENCE.finditer(text, opening.end()) if _closes(opening, each)), None)
        begin = min(len(text), opening.end() + 1)
        end = len(text) if closing is None else max(begin, closing.start())
        styles.append((opening.start(), opening.end(), "dim"))
        styles += _code(text[begin:end], opening[2].lower(), begin)
        if closing is not None:
            styles.append((closing.start(), closing.end(), "dim"))
        at = end if closing is None else closing.end()
        opening = None if closing is None else _FENCE.search(text, at)
    return [*styles, *_prose(text, at, len(text))]


def code_styles(text: str, language: str) -> list[Styled]:
    """The styles of code; none for long code, or an unknown language."""
    return _code(text, language.lower(), 0) if len(text) <= LONGEST else []


def diff_styles(text: str) -> list[Styled]:
    """The styles of a change of files, line by line; none for a long one."""
    styles: list[Styled] = []
    at = 0
    for line in text.split("\n") if len(text) <= LONGEST else ():
        is_heading = line.startswith(("+++ ", "--- ", "diff --git ", "*** "))
        style = "bold" if is_heading else {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
        if style is not None and line:
            styles.append((at, at + len(line), style))
        at += len(line) + 1
    return styles


def _closes(opening: re.Match[str], other: re.Match[str]) -> bool:
    return other[1].startswith(opening[1]) and not other[2]


def _prose(text: str, start: int, end: int) -> list[Styled]:
    return [
        (found.start(kind), found.end(kind), _MARKDOWN_STYLES[kind])
        for found in _MARKDOWN.finditer(text, start, end)
        if (kind := found.lastgroup) is not None
    ]


def _code(code: str, language: str, offset: int) -> list[Styled]:
    """The styles of a code block."""
    if language not in _LANGUAGES:
        return []
    shown = CodeSyntax("", _LANGUAGES[language], theme="ansi_dark").highlight(code)
    if not shown.plain.startswith(code):
        return []
    spans = sorted((span.start, span.end, str(span.style)) for span in shown.spans if span.end > span.start)
    kept: list[Styled] = []
    for start, end, style in spans:
        end = min(end, len(code))
        if start < end and style.strip() not in ("", "none") and (not kept or start >= kept[-1][1] - offset):
            kept.append((start + offset, end + offset, style.replace("on default", "").strip() or "default"))
    return kept


class Styles:
    """The styles of one text, looked up by position."""

    def __init__(self, styles: list[Styled]) -> None:
        self._styles = sorted(styles)
        self._starts = [start for start, _, _ in self._styles]
        self._ends = [end for _, end, _ in self._styles]

    def put_on(self, row: Text, start: int, end: int) -> None:
        """Style a row that shows the text from `start` to `end`."""
        for place in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            begin, stop, style = self._styles[place]
            row.stylize(style, max(0, begin - start), min(end, stop) - start)
