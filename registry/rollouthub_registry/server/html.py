"""HTML without a template engine: text is escaped unless it is made here, and holds nothing that cannot be seen."""

from collections.abc import Iterable
from html import escape

from rollouthub.text import printable


class Html(str):
    """Markup; every other `str` is text."""

    __slots__ = ()


def tag(name: str, /, *children: "str | Iterable[str] | None", **attributes: str | bool | None) -> Html:
    """An element. Attributes are escaped; `class_` and the like lose their underscore."""
    words = [name]
    for key, value in attributes.items():
        if value is True:
            words.append(key.rstrip("_"))
        elif value is not None and value is not False:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(printable(value))}"')
    opening = f"<{' '.join(words)}>"
    if name in ("base", "br", "input", "link", "meta"):
        return Html(opening)
    return Html(f"{opening}{join(*children)}</{name}>")


def join(*children: "str | Iterable[str] | None") -> Html:
    """Markup and text, one after the other."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(printable(child)))
        elif child is not None:
            parts.extend(join(each) for each in child)
    return Html("".join(parts))
