"""Builds HTML and SVG without a template engine: every string that was not built here is escaped."""

from collections.abc import Iterable
from html import escape

from rollouthub.text import printable

_VOID = ("base", "br", "img", "input", "link", "meta")


class Markup(str):
    """A string of HTML or SVG that is already escaped; every other `str` is plain text."""

    __slots__ = ()


def tag(name: str, /, *children: "str | Iterable[str] | None", **attributes: str | float | bool | None) -> Markup:
    """Build an element. Attributes are escaped; `class_` becomes `class`, and inner underscores become hyphens."""
    words = [name]
    for key, value in attributes.items():
        given = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(given)
        elif value is not None and value is not False:
            text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            words.append(f'{given}="{escape(printable(text))}"')
    opening = f"<{' '.join(words)}>"
    if name in _VOID:
        return Markup(opening)
    parts = [opening]
    _write(children, parts)
    parts.append(f"</{name}>")
    return Markup("".join(parts))  # one copy: an element around a page is as large as the page


def join(*children: "str | Iterable[str] | None") -> Markup:
    """Concatenate markup and text; text is escaped."""
    parts: list[str] = []
    _write(children, parts)
    return Markup("".join(parts))


def _write(children: "Iterable[str | Iterable[str] | None]", parts: list[str]) -> None:
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(printable(child)))
        elif child is not None:
            _write(child, parts)


def table(titles: Iterable[str], rows: Iterable[Iterable[str]], *, words: int = 1, class_: str | None = None) -> Markup:
    """A table that scrolls sideways if it is too wide; columns after the first `words` ones are styled as numbers."""
    heads = [tag("th", title, scope="col", class_=None if i < words else "n") for i, title in enumerate(titles)]
    body: list[Markup] = []
    for row in rows:
        cells = [tag("td", cell, class_=None if i < words else "n") for i, cell in enumerate(row)]
        body.append(tag("tr", cells))
    inner = tag("table", tag("thead", tag("tr", heads)), tag("tbody", body), class_=class_)
    return tag("div", inner, class_="wide", tabindex="0", role="group", aria_label="Table")
