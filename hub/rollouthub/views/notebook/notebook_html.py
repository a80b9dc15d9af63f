"""HTML for notebooks: whatever a text holds, it is shown as text, and nothing is fetched.

There is no script, link, style sheet or picture in what is made here. A notebook would typeset what looks like
mathematics; the class of the outermost element tells it not to.
"""

from collections.abc import Iterable, Sequence

from rollouthub.text import plain, plain_name
from rollouthub.views.markup import Markup, join, tag

_FONT = "font-family:ui-monospace,monospace;font-size:12px"
_CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top"


def words(text: object) -> Markup:
    """A short text on one line; a direction that it sets ends with it."""
    return tag("bdi", plain_name(str(text)))


def block(text: str, most: int) -> Markup:
    """A text with its lines, cut to a length."""
    return tag("pre", tag("bdi", plain(text, most)), style="white-space:pre-wrap;margin:2px 0 6px 0")


def figure(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where there is none: what is unscored is not zero."""
    return "–" if value is None else f"{value:.{digits}f}"


def heading(text: str) -> Markup:
    """A line above what follows."""
    return tag("div", words(text), style="font-weight:bold;margin:6px 0 2px 0")


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Rows below their titles."""
    head = tag("thead", tag("tr", (_cell("th", title) for title in titles)))
    return tag("table", head, tag("tbody", (tag("tr", (_cell("td", cell) for cell in row)) for row in rows)))


def facts(pairs: Iterable[tuple[str, object]]) -> Markup:
    """Names and what they are."""
    return tag("table", tag("tbody", (tag("tr", _cell("th", name), _cell("td", value)) for name, value in pairs)))


def _cell(name: str, content: object) -> Markup:
    return tag(name, words(content), style=_CELL)


def folded(title: str, content: Markup, *, is_open: bool = False) -> Markup:
    """A section that shows its title, and its content after a click."""
    return tag("details", tag("summary", words(title)), content, open=is_open)


def page(*parts: Markup | None) -> Markup:
    """Everything, in the one element that a notebook shows."""
    return tag("div", join(*parts), class_="tex2jax_ignore mathjax_ignore", style=_FONT)
