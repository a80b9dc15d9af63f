"""HTML for notebooks: all text is escaped, and nothing is fetched.

The HTML has no scripts; a rollout's page has the style sheet of cards, and pictures as `data:` URLs. Notebooks would
typeset text that looks like mathematics; the class of the outermost element prevents that.
"""

from collections.abc import Iterable, Sequence

from rollouthub.text import plain, plain_name
from rollouthub.views.markup import Markup, join, tag

_FONT = "font-family:ui-monospace,monospace;font-size:12px"
_NOTED = "border-left:3px solid #a63fa8;padding:2px 0 2px 8px;margin:4px 0;white-space:pre-wrap"
_CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top"


def words(text: object) -> Markup:
    """A short text on one line, isolated so that its writing direction does not affect what follows."""
    return tag("bdi", plain_name(str(text)))


def block(text: str, most: int) -> Markup:
    """A text of several lines, cut to `most` characters."""
    return tag("pre", tag("bdi", plain(text, most)), style="white-space:pre-wrap;margin:2px 0 6px 0")


def heading(text: str) -> Markup:
    """A bold line, as a heading."""
    return tag("div", words(text), style="font-weight:bold;margin:6px 0 2px 0")


def noted(lines: Iterable[str]) -> Markup:
    """What people noted, a line each."""
    return tag("div", (tag("div", tag("bdi", plain(line))) for line in lines), style=_NOTED)


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table with a row of titles."""
    head = tag("thead", tag("tr", (_cell("th", title) for title in titles)))
    return tag("table", head, tag("tbody", (tag("tr", (_cell("td", cell) for cell in row)) for row in rows)))


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """A table of names and their values."""
    return tag("table", tag("tbody", (tag("tr", _cell("th", name), _cell("td", value)) for name, value in pairs)))


def _cell(name: str, content: object) -> Markup:
    return tag(name, words(content), style=_CELL)


def folded(title: str, content: Markup, *, is_open: bool = False) -> Markup:
    """A section that shows its title, and its content after a click."""
    return tag("details", tag("summary", words(title)), content, open=is_open)


def page(*parts: Markup | None) -> Markup:
    """All parts in one element, as a notebook displays it."""
    return tag("div", join(*parts), class_="tex2jax_ignore mathjax_ignore", style=_FONT)
