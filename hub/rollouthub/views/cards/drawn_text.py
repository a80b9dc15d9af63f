"""Texts that hold SVG documents as HTML: each document as a picture, with its markup folded below."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rollouthub.text import plain_name
from rollouthub.views.cards.svg_document import MOST_CHARACTERS, NoPictureError, SvgDocument, read_svg
from rollouthub.views.markup import Markup, join, tag

MOST_PICTURES = 4
"""Documents of one text that are looked for and shown."""
_BEGIN = "<svg"
_FENCE = re.compile(r"(?:\A|\n)```[\w+-]{0,20}[ \t]*\n\s*\Z")
_FENCE_CHARACTERS = 60
_FENCE_END = re.compile(r"\s{0,60}```[ \t]*(?:\n|\Z)")
_PAGE = re.compile(r"<(?:html|head|body|div)\b", re.IGNORECASE)
_PROLOG = re.compile(r"\s*(?:<\?xml[^<>]{0,200}\?>\s*)?\Z")


@dataclass(frozen=True, slots=True)
class DrawnSvg:
    """A document at its place in a text."""

    start: int
    end: int
    svg: SvgDocument


def drawn_in(text: str) -> Iterator[DrawnSvg]:
    """The SVG documents of a text that are shown as pictures."""
    at = -1
    for _ in range(MOST_PICTURES):
        at = text.find(_BEGIN, at + 1)
        if at < 0:
            return
        part = text[at : at + MOST_CHARACTERS]
        try:
            svg = read_svg(part)
        except NoPictureError:
            continue
        length = len(part.encode("utf-8", "replace")[: svg.end].decode("utf-8", "ignore"))
        yield DrawnSvg(at, at + length, svg)
        at += length - 1


def picture_html(svg: SvgDocument) -> Markup:
    """The picture, and what is not drawn."""
    source = f"data:image/svg+xml;base64,{b64encode(svg.text.encode()).decode()}"
    names = ", ".join(plain_name(name)[:40] for name in svg.left_out[:6])
    return join(
        tag("p", tag("img", src=source, alt="A drawing", width=svg.width, height=svg.height), class_="picture drawn"),
        tag("p", f"not drawn: {names}", class_="soft") if names else None,
    )


def _folded(made: Markup) -> Markup:
    return tag("details", tag("summary", "SVG"), made, class_="rest")


def with_pictures(text: str, made: Callable[[], Markup]) -> Markup:
    """A text that is shown as it is, after the pictures that it holds; folded where it is one document alone.

    Those of a web page, such as its icons, stay text.
    """
    found = list(drawn_in(text)) if _BEGIN in text else []
    if not found or _PAGE.search(text, 0, found[0].start) is not None:
        return made()
    first, last = found[0], found[-1]
    is_alone = len(found) == 1 and _PROLOG.match(text[: first.start]) is not None and not text[last.end :].strip()
    return join([picture_html(each.svg) for each in found], _folded(made()) if is_alone else made())


def prose_with_pictures(text: str, prose: Callable[[str], Markup], pre: Callable[[str], Markup]) -> Markup:
    """Prose, in which each document stands as a picture at its place; in code with more than it, before the text."""
    found = list(drawn_in(text)) if _BEGIN in text else []
    pieces: list[Markup] = []
    at = 0
    for each in found:
        before, fence = text[at : each.start], None
        if (opened := _FENCE.search(before, max(0, len(before) - _FENCE_CHARACTERS))) is not None:
            fence = _FENCE_END.match(text, each.end)
            before = before[: opened.start()]
        if before.count("```") % 2 or (opened is not None and fence is None):
            return join([picture_html(each.svg) for each in found], prose(text))
        if before.strip():
            pieces.append(prose(before.strip("\n")))
        pieces += [picture_html(each.svg), _folded(pre(text[each.start : each.end]))]
        at = each.end if fence is None else fence.end()
    if (rest := text[at:]).strip() or not found:
        pieces.append(prose(rest.strip("\n") if found else rest))
    return join(*pieces)
