"""The blocks of cards as HTML: what is long shows its beginning, and the rest on a click."""

from collections.abc import Callable, Iterable

from rollouthub.statistics.amounts import count
from rollouthub.views.cards.blocks import (
    Block,
    CodeBlock,
    DiffBlock,
    FieldsBlock,
    MediaBlock,
    PlainBlock,
    ProseBlock,
    TableBlock,
)
from rollouthub.views.cards.code_html import code_html, diff_html
from rollouthub.views.cards.drawn_text import prose_with_pictures, with_pictures
from rollouthub.views.cards.prose_html import prose_html
from rollouthub.views.markup import Markup, join, table, tag

FOLDED_LINES, FOLDED_CHARACTERS = 24, 2400
"""Lines and characters of a text that are shown before the rest is folded."""
_SLACK = 1.35
"""A text that is longer by less than this factor is not folded."""


def blocks_html(blocks: Iterable[Block]) -> Markup:
    """Several blocks, one below the other."""
    return join(*map(block_html, blocks))


def block_html(block: Block) -> Markup:
    """One block."""
    match block:
        case ProseBlock():
            return tag("div", prose(block), class_="prose")
        case PlainBlock():
            return with_pictures(block.text, lambda: pre_html(block.text, block.left))
        case CodeBlock():
            made = with_pictures(block.text, lambda: pre_html(block.text, block.left, _painter(block.language)))
            return _named(block.name, block.language, made)
        case DiffBlock():
            return _named(block.name, "diff", pre_html(block.text, block.left, diff_html))
        case FieldsBlock():
            pairs = [join(tag("dt", name), tag("dd", tag("code", value))) for name, value in block.fields]
            return join(tag("dl", pairs, class_="fields") if pairs else None, _more(block.left, "field"))
        case TableBlock():
            return join(table(block.titles, block.rows, words=len(block.titles)), _more(block.left, "row"))
        case MediaBlock():
            return media_html(block)


def media_html(block: MediaBlock) -> Markup:
    """A picture, or a line that says what cannot be shown, and why."""
    if block.source is not None and block.is_picture:
        link = None if block.source.startswith("data:") else block.source
        picture = tag("img", src=block.source, alt="A picture of the conversation", loading="lazy")
        return tag("p", tag("a", picture, href=link) if link is not None else picture, class_="picture")
    if block.source is not None:
        return tag("p", tag("a", f"{block.mime_type} {block.digest[:19]}…", href=block.source), class_="soft")
    return tag("p", f"[{block.why or f'{block.mime_type} {block.digest[:19]}…'}]", class_="soft")


def prose(block: ProseBlock) -> Markup:
    """Markdown, with its rest folded if it is long, and SVG documents as pictures."""
    return join(prose_with_pictures(block.text, _prose, pre_html), _more(block.left))


def _prose(text: str) -> Markup:
    at = _break(text, is_prose=True)
    if at is None:
        return prose_html(text)
    rest = text[at:].strip("\n")
    return join(prose_html(text[:at].rstrip("\n")), _folded(rest, tag("div", prose_html(rest)), 0))


def pre_html(text: str, left: int = 0, paint: Callable[[str], str] | None = None) -> Markup:
    """Text as it is, with its rest folded if it is long; `paint` makes HTML of it."""
    at = _break(text)
    inner = (text if at is None else text[:at].removesuffix("\n"), None if at is None else text[at:])
    made = [None if part is None else tag("pre", part if paint is None else paint(part)) for part in inner]
    if inner[1] is None or made[1] is None:
        return join(made[0], _more(left))
    return join(made[0], _folded(inner[1], made[1], left))


def _painter(language: str) -> Callable[[str], Markup]:
    return lambda text: code_html(text, language)


def _break(text: str, *, is_prose: bool = False) -> int | None:
    """Where the folded rest of a text begins; None if it is short. Prose breaks between paragraphs, not within code."""
    is_short = len(text) <= FOLDED_CHARACTERS * _SLACK
    if is_short and text.count("\n") <= FOLDED_LINES * _SLACK:
        return None
    at = lines = 0
    is_code = False
    while at < len(text):
        end = text.find("\n", at)
        following = len(text) if end < 0 else end + 1
        is_over = lines >= FOLDED_LINES or following > FOLDED_CHARACTERS
        if is_prose:
            line = text[at : at + 8].lstrip(" ")
            is_code ^= line.startswith(("```", "~~~"))
            if is_over and not is_code and not text[at:following].strip() and following < len(text):
                return following
            if lines > 4 * FOLDED_LINES or following > 4 * FOLDED_CHARACTERS:
                return at or FOLDED_CHARACTERS
        elif is_over:
            return at or FOLDED_CHARACTERS
        at, lines = following, lines + 1
    return None


def _folded(rest: str, made: Markup, left: int) -> Markup:
    lines = rest.count("\n") + 1
    said = count(lines, "more line") if lines > 1 else count(len(rest), "more character")
    return tag("details", tag("summary", f"… {said}"), made, _more(left), class_="rest")


def _more(left: int, noun: str = "character") -> Markup | None:
    return tag("p", f"… {count(left, f'more {noun}')}", class_="soft") if left else None


def _named(name: str, language: str, made: Markup) -> Markup:
    label = tag("div", name, tag("span", language) if language and language != name else None, class_="label")
    return tag("div", label if name or language else None, made, class_="code")
