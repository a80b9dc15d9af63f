"""HTML and SVG without a template engine: text is escaped, and made harmless, unless it is made here."""

from collections.abc import Iterable
from html import escape

from rollouthub.text import printable

_VOID = ("base", "br", "img", "input", "link", "meta")


class Markup(str):
    """Markup; every other `str` is text."""

    __slots__ = ()


def tag(name: str, /, *children: "str | Iterable[str] | None", **attributes: str | float | bool | None) -> Markup:
    """An element. Attributes are escaped; `class_` loses its underscore, and others turn into hyphens."""
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
    return Markup(f"{opening}{join(*children)}</{name}>")


def join(*children: "str | Iterable[str] | None") -> Markup:
    """Markup and text, one after the other."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(printable(child)))
        elif child is not None:
            parts.extend(join(each) for each in child)
    return Markup("".join(parts))


def table(titles: Iterable[str], rows: Iterable[Iterable[str]], *, words: int = 1, class_: str | None = None) -> Markup:
    """A table that scrolls by itself where it is too wide; all but the first `words` columns hold numbers."""
    heads = [tag("th", title, scope="col", class_=None if i < words else "n") for i, title in enumerate(titles)]
    body: list[Markup] = []
    for row in rows:
        cells = [tag("td", cell, class_=None if i < words else "n") for i, cell in enumerate(row)]
        body.append(tag("tr", cells))
    inner = tag("table", tag("thead", tag("tr", heads)), tag("tbody", body), class_=class_)
    return tag("div", inner, class_="wide", tabindex="0", role="group", aria_label="Table")
