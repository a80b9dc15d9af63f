"""HTML for notebooks: whatever a text holds, it is shown as text, and nothing is fetched.

There is no script, link, style sheet or picture in what is made here. A notebook would typeset what looks like
mathematics; the class of the outermost element tells it not to.
"""

from collections.abc import Iterable, Sequence
from html import escape

from rollouthub.text import plain, plain_name

_FONT = "font-family:ui-monospace,monospace;font-size:12px"
_CELL = "padding:2px 10px 2px 0;text-align:left;vertical-align:top"


def words(text: object) -> str:
    """A short text on one line; a direction that it sets ends with it."""
    return f"<bdi>{escape(plain_name(str(text)))}</bdi>"


def block(text: str, most: int) -> str:
    """A text with its lines, cut to a length."""
    return f'<pre style="white-space:pre-wrap;margin:2px 0 6px 0"><bdi>{escape(plain(text, most))}</bdi></pre>'


def figure(value: float | None, digits: int = 3) -> str:
    """A number, or a dash where there is none: what is unscored is not zero."""
    return "–" if value is None else f"{value:.{digits}f}"


def heading(text: str) -> str:
    """A line above what follows."""
    return f'<div style="font-weight:bold;margin:6px 0 2px 0">{words(text)}</div>'


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows below their titles."""
    head = "".join(f'<th style="{_CELL}">{words(title)}</th>' for title in titles)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{words(cell)}</td>' for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and what they are."""
    rows = "".join(
        f'<tr><th style="{_CELL}">{words(name)}</th><td style="{_CELL}">{words(value)}</td></tr>'
        for name, value in pairs
    )
    return f"<table><tbody>{rows}</tbody></table>"


def folded(title: str, content: str, *, is_open: bool = False) -> str:
    """What opens on a click."""
    return f"<details{' open' if is_open else ''}><summary>{words(title)}</summary>{content}</details>"


def page(*parts: str) -> str:
    """Everything, in the one element that a notebook shows."""
    return f'<div class="tex2jax_ignore mathjax_ignore" style="{_FONT}">{"".join(parts)}</div>'
