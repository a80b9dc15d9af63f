"""Markdown of models, tasks and strangers as HTML: no HTML of theirs, no pictures from elsewhere, harmless links."""

import re
from collections.abc import MutableMapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from rollouthub.text import one_line
from rollouthub.views.cards.code_html import code_html, diff_html
from rollouthub.views.markup import Markup, tag

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

LONGEST = 24_000
"""Most characters of a text that is read as Markdown; a longer one is shown as it is."""
_SIGNS = re.compile(r"[*_`#\[~|>\\&]")
_BEGINNINGS = re.compile(r"\n(?:\s{0,40}(?:[-+]|\d{1,9}[.)]) |\t|    |[-=]{2})")
"""What a text with Markdown in it has at least one of, but for addresses: signs, and beginnings of lines. Each is found
ten times faster alone than as a part of one expression.
"""
_MOST_BRACKETS = 2000
"""Opening brackets up to which a text is read as Markdown: the end of each is looked for, also where there is none."""
_MOST_CELLS = 5000
"""Cells up to which tables are drawn: a row of two characters takes as many as the table has columns."""
_RULER = re.compile(r"[\s>+*0-9.):|-]*")
"""A line as below a table's head, also within quotes and lists."""
_HARMLESS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


def prose_html(text: str) -> Markup:
    """A text, made harmless to show before, as HTML."""
    if len(text) > LONGEST or text.count("[") > _MOST_BRACKETS or not _has_marks(text):
        return tag("p", text, class_="text")
    return Markup(_markdown(has_tables=_cells(text) <= _MOST_CELLS).render(text))


def _has_marks(text: str) -> bool:
    return _SIGNS.search(text) is not None or "://" in text or _BEGINNINGS.search(f"\n{text}") is not None


def _cells(text: str) -> int:
    """At least as many as the cells of all tables in a text."""
    cells = columns = 0
    for line in text.split("\n"):
        if not line.strip():
            columns = 0
        elif "|" in line and _RULER.fullmatch(line) is not None:
            columns = max(columns, line.count("|") + 1)
        cells += columns
    return cells


@cache
def _markdown(*, has_tables: bool) -> "MarkdownIt":
    from markdown_it import MarkdownIt  # takes as long to import as a page to make

    markdown = MarkdownIt("commonmark", {"html": False, "breaks": True, "xhtmlOut": False, "maxNesting": 20}).enable(
        ["table", "strikethrough"] if has_tables else ["strikethrough"]
    )
    markdown.validateLink = lambda url: _HARMLESS.match(url) is not None  # pyright: ignore[reportAttributeAccessIssue]
    for name, rule in _RULES.items():
        markdown.add_render_rule(name, rule)
    return markdown


_Environment = MutableMapping[str, Any]


def _fence(self: Any, tokens: Sequence["Token"], at: int, options: Any, env: _Environment) -> str:
    token = tokens[at]
    language = token.info.split(maxsplit=1)[0].lower()[:20] if token.info.strip() else ""
    text = token.content.removesuffix("\n")
    inner = diff_html(text) if language in ("diff", "patch") else code_html(text, language)
    return tag("pre", tag("code", inner)) + "\n"


def _image(self: Any, tokens: Sequence["Token"], at: int, options: Any, env: _Environment) -> str:
    """Only the words that describe a picture: nothing is fetched from elsewhere."""
    return tag("span", f"[picture: {one_line(tokens[at].content) or 'no description'}]", class_="soft")


def _link_open(self: Any, tokens: Sequence["Token"], at: int, options: Any, env: _Environment) -> str:
    address = escape(str(tokens[at].attrs.get("href", "")))
    return f'<a href="{address}" title="{address}" rel="noreferrer noopener nofollow" target="_blank">'


def _heading_open(self: Any, tokens: Sequence["Token"], at: int, options: Any, env: _Environment) -> str:
    """A heading of a text is none of the page."""
    return f'<p class="heading {tokens[at].tag}">'


def _heading_close(self: Any, tokens: Sequence["Token"], at: int, options: Any, env: _Environment) -> str:
    return "</p>\n"


def _table_open(self: Any, tokens: Sequence["Token"], at: int, options: Any, env: _Environment) -> str:
    return '<div class="wide" tabindex="0" role="group" aria-label="Table"><table>\n'


def _table_close(self: Any, tokens: Sequence["Token"], at: int, options: Any, env: _Environment) -> str:
    return "</table></div>\n"


def _cell_open(self: Any, tokens: Sequence["Token"], at: int, options: Any, env: _Environment) -> str:
    """Its alignment is a style attribute, which pages do not take."""
    style = str(tokens[at].attrs.get("style", ""))
    return f'<{tokens[at].tag} class="n">' if "right" in style else f"<{tokens[at].tag}>"


_RULES = {
    "fence": _fence,
    "code_block": _fence,
    "image": _image,
    "link_open": _link_open,
    "heading_open": _heading_open,
    "heading_close": _heading_close,
    "table_open": _table_open,
    "table_close": _table_close,
    "th_open": _cell_open,
    "td_open": _cell_open,
}
