"""SVG documents are shown as pictures that can do nothing, with their markup folded; and bounded, whatever they say."""

import re
import time
from base64 import b64decode
from xml.etree import ElementTree

import pytest

from rollouthub.views.cards.block_html import block_html
from rollouthub.views.cards.blocks import CodeBlock, PlainBlock, ProseBlock
from rollouthub.views.cards.svg_document import MOST_CHARACTERS, SIDE, NoPictureError, read_svg
from tests.views.cards.shown_pages import content_of, saying

CIRCLE = '<svg viewBox="0 0 200 100"><circle cx="5" cy="6" r="4" fill="red"/></svg>'
SHOWN = re.compile(r'<img src="data:image/svg\+xml;base64,([^"]+)" alt="A drawing" width="(\d+)" height="(\d+)">')


def drawn(page: str) -> list[str]:
    return [b64decode(found[0]).decode() for found in SHOWN.findall(page)]


def bomb(levels: int) -> str:
    uses = "<g id='g0'><rect width='1' height='1'/></g>"
    for level in range(1, levels):
        again = f"<use href='#g{level - 1}'/>" * 10
        uses += f"<g id='g{level}'>{again}</g>"
    return f'<svg viewBox="0 0 9 9"><defs>{uses}</defs><use href="#g{levels - 1}"/></svg>'


def test_an_answer_that_is_a_drawing_is_a_picture_with_its_markup_folded() -> None:
    for text in (CIRCLE, f"```svg\n{CIRCLE}\n```", f'<?xml version="1.0"?>\n{CIRCLE}\n'):
        page = block_html(ProseBlock(text))
        (picture,) = drawn(page)
        root = ElementTree.fromstring(picture)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.attrib == {"viewBox": "0 0 200 100", "width": str(SIDE), "height": str(SIDE // 2)}
        assert [each.attrib for each in root] == [{"cx": "5", "cy": "6", "r": "4", "fill": "red"}]
        assert "<details" in page.partition("</p>")[2]
        assert "&lt;circle cx=&quot;5&quot;" in page.partition("<details")[2]


def test_words_around_a_drawing_stay_where_they_are() -> None:
    page = block_html(ProseBlock(f"Here **it** is:\n\n```xml\n{CIRCLE}\n```\n\nAnd {CIRCLE} again.\n\nDone."))
    assert len(drawn(page)) == 2
    order = [page.index(each) for each in ("<strong>it</strong>", "<img", "And", "again.", "Done.")]
    assert order == sorted(order)
    assert "```" not in page
    inside = block_html(ProseBlock(f"```html\n<body>\n{CIRCLE}\n</body>\n```"))
    assert len(drawn(inside)) == 1
    assert "&lt;body&gt;" in inside
    assert block_html(ProseBlock("Write <svg>...</svg> **now**")).count("<img") == 0


def test_a_tools_drawing_is_a_picture_and_its_other_text_is_not_folded() -> None:
    assert len(drawn(block_html(PlainBlock(CIRCLE)))) == 1
    assert "<details" in block_html(PlainBlock(CIRCLE))
    page = block_html(PlainBlock(f"made:\n{CIRCLE}\n{CIRCLE}\nend"))
    assert len(drawn(page)) == 2
    assert "<details" not in page
    assert "made:" in page
    assert len(drawn(block_html(CodeBlock(CIRCLE, "svg", "picture")))) == 1
    assert drawn(block_html(PlainBlock(f"<html><DIV>{CIRCLE}</DIV></html>"))) == [], "an icon of a web page"


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        "<script href='https://evil.example/x.js'/>",
        "<image href='https://evil.example/x.png' width='9' height='9'/>",
        "<image xlink:href='data:image/svg+xml,&lt;svg/&gt;'/>",
        "<foreignObject><body onload='alert(1)'><iframe src='https://evil.example'/></body></foreignObject>",
        "<use href='https://evil.example/x.svg#a'/>",
        "<rect onload='alert(1)' onclick='alert(2)' width='1' height='1'/>",
        "<a href='javascript:alert(1)'><rect width='1' height='1'/></a>",
        "<animate attributeName='href' to='javascript:alert(1)'/>",
        "<set attributeName='onclick' to='alert(1)'/>",
        "<style>@import 'https://evil.example/x.css'; rect { fill: url(https://evil.example/a#b) }</style>",
        "<rect style='fill:url(&quot;https://evil.example/a#b&quot;); filter: url(#f); animation: x 1s'/>",
        "<rect fill='url(https://evil.example/x#y)' width='1' height='1'/>",
        "<filter id='f'><feTurbulence baseFrequency='9' numOctaves='999'/></filter><rect filter='url(#f)'/>",
        "<!-- --><![CDATA[<script>alert(1)</script>]]><rect/>",
        "<text>&lt;script>alert(1)&lt;/script></text>",
    ],
)
def test_nothing_of_a_hostile_drawing_is_kept_but_shapes(evil: str) -> None:
    (picture,) = drawn(block_html(PlainBlock(f'<svg viewBox="0 0 9 9">{evil}<circle r="1"/></svg>')))
    assert "<circle" in picture
    kept = {each.tag.rpartition("}")[2] for each in ElementTree.fromstring(picture).iter()}
    assert kept <= {"svg", "circle", "rect", "text", "use"}
    for word in ("evil.example", "<script", "onload", "onclick", "javascript", "filter", "style", "@", "data:"):
        assert word not in picture, word


def test_it_is_said_what_is_not_drawn() -> None:
    page = block_html(PlainBlock('<svg viewBox="0 0 9 9"><script/><filter id="f"/><rect filter="url(#f)"/></svg>'))
    assert "not drawn: script, filter" in page


@pytest.mark.parametrize(
    "text",
    [
        bomb(7),
        '<svg viewBox="0 0 9 9"><g id="a"><use href="#a"/></g></svg>',
        '<svg viewBox="0 0 9 9">'
        + "".join(f'<g id="a{n}"><use href="#a{n + 1}"/></g>' for n in range(1900))
        + "</svg>",
        '<svg viewBox="0 0 9 9">' + "<rect/>" * 5000 + "</svg>",
        '<svg viewBox="0 0 9 9">' + "<g>" * 60 + "<rect/>" + "</g>" * 60 + "</svg>",
        '<svg viewBox="0 0 9 9"><path d="M0 0L1e9 0" stroke-dasharray="1"/></svg>',
        '<svg viewBox="0 0 9 9">' + '<path d="M0 0L9 9" stroke-dasharray="1"/>' * 100 + "</svg>",
        '<svg viewBox="0 0 9 9"><rect/>' + "x" * MOST_CHARACTERS + "</svg>",
        '<svg viewBox="0 0 9 9"><rect/>',
        "<svg><rect></svg>",
        "<svg>&nbsp;<rect/></svg>",
        "<svg></svg>",
        '<svg width="0" height="9"><rect/></svg>',
        "<svgx><rect/></svgx>",
    ],
)
def test_a_drawing_that_draws_too_much_or_nothing_stays_text(text: str) -> None:
    began = time.process_time()
    with pytest.raises(NoPictureError):
        read_svg(text)
    assert "<img" not in block_html(PlainBlock(text[:100_000]))
    assert time.process_time() - began < 2


def test_entities_have_no_place_to_be_declared() -> None:
    declared = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    text = f'<!DOCTYPE svg [<!ENTITY a0 "ha">{declared}]><svg viewBox="0 0 9 9"><text>&a9;</text></svg>'
    assert drawn(block_html(PlainBlock(text))) == []
    with pytest.raises(NoPictureError, match="document type"):
        read_svg(text)


def test_sides_are_bounded_and_dashes_are_not_too_short() -> None:
    huge = read_svg('<svg width="90000" height="3"><rect stroke-dasharray="0.0001"/></svg>')
    assert (huge.width, huge.height) == (SIDE, 1)
    assert "dasharray" not in huge.text
    assert 'viewBox="0 0 90000 3"' in huge.text


def test_plain_rules_of_style_sheets_are_kept_as_attributes() -> None:
    style = "<style>.a, rect { fill: blue; stroke: red } #b{fill:#0f0}</style>"
    made = read_svg(
        f'<svg viewBox="0 0 9 9">{style}<rect class="a"/><rect id="b"/><rect style="stroke-width: 2px"/></svg>'
    )
    rects = [each.attrib for each in ElementTree.fromstring(made.text)]
    assert [each.get("fill") for each in rects] == ["blue", "#0f0", "blue"]
    assert rects[2]["stroke-width"] == "2px"


def test_a_rollouts_page_draws_what_was_said_and_answered() -> None:
    assert len(drawn(content_of(saying(CIRCLE)))) > 3
