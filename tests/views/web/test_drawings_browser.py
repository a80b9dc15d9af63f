"""Drawings of agents in a real browser: they are seen, and nothing in them runs, loads or leads anywhere."""

from pathlib import Path
from typing import cast

import pytest

from rollouthub import Message
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.web.bundle import write_bundle
from tests.store.records import conversation, record, write
from tests.views.cards.test_drawings import CIRCLE, bomb

from .conftest import served
from .test_browser import urls, visit

pytestmark = pytest.mark.live

EVIL = "https://evil.example/"
HOSTILE = (
    f'<svg viewBox="0 0 9 9" onload="alert(1)" width="99999" height="99999"><script>alert(2)</script>'
    f'<script href="{EVIL}a.js"/><image href="{EVIL}b.png" width="9" height="9"/><use href="{EVIL}c.svg#d"/>'
    f'<foreignObject width="9" height="9"><body xmlns="http://www.w3.org/1999/xhtml"><iframe src="{EVIL}e"/>'
    f"<img src='x' onerror='alert(3)'/></body></foreignObject><style>@import '{EVIL}f.css';"
    f"* {{ fill: url({EVIL}g#h); background: url({EVIL}i) }}</style>"
    f'<a href="javascript:alert(4)"><rect width="9" height="9"/></a><animate attributeName="x" onbegin="alert(5)"/>'
    f'<circle cx="4" cy="4" r="3" fill="red" onclick="alert(6)"/></svg>'
)
SEEN = """
    told["pictures"] = []
    for address in given["addresses"]:
        page = chromium.new_page()
        hear(page)
        page.goto(address)
        if given["base"]:
            page.wait_for_selector("h1")
            page.goto(given["base"])
        page.wait_for_selector("#turn-1")
        until(page, "[...document.images].every(each => each.complete)")
        sizes = "[...document.images].map(each => [each.naturalWidth, each.naturalHeight, each.width, each.height])"
        told["pictures"].append(page.evaluate(sizes))
        page.locator(".drawn img").last.click()
        told["wide"].append(page.evaluate("document.scrollingElement.scrollWidth > innerWidth"))
        told["folded"] = page.locator("details:has-text('circle') pre").first.is_visible()
"""


async def test_drawings_are_seen_and_do_nothing(tmp_path: Path) -> None:
    (turn,) = conversation(1)
    said = "\n\n".join(("See:", CIRCLE, HOSTILE, bomb(7), "Done."))
    turns = [turn.model_copy(update={"response": Message(role="assistant", content=said), "tool_calls": ()})]
    await write(tmp_path / "run", [record("g1-0", turns=turns)])
    write_bundle([tmp_path / "run"], tmp_path / "pages", "", Plainness(lambda text: text))
    file = (tmp_path / "pages" / "run" / "run" / "rollout" / "g1-0.html").as_uri()
    async with served(tmp_path / "run") as seen:
        page = seen.base + "run/run/rollout/g1-0"
        served_told = await visit(SEEN, addresses=[seen.server.address], base=page)
        origin = seen.server.guard.origin
    filed_told = await visit(SEEN, addresses=[file], base="")
    for told in (served_told, filed_told):
        asked = [url for url in urls(told) if not url.startswith((origin, "data:", "file:"))]
        assert (asked, told["dialogs"], told["wide"]) == ([], 0, [False])
        (pictures,) = cast("list[list[list[int]]]", told["pictures"])
        assert [each[:2] for each in pictures] == [[320, 160], [320, 320]]
        assert all(width <= 544 and height <= 416 for *_, width, height in pictures)
        assert (told["said"], told["folded"]) == ([], False)
