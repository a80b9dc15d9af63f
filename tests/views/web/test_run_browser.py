"""The page of a run in a real browser: what people look for first is on the first screen."""

from pathlib import Path
from typing import cast

import pytest

from tests.tui.made import finished_run

from .conftest import served
from .test_browser import visit

pytestmark = pytest.mark.live

TOPS = """
    told["tops"] = {}
    top = "document.querySelector('table.rollouts').getBoundingClientRect().top"
    for width in (1280, 390):
        page = chromium.new_context(viewport={"width": width, "height": 800}).new_page()
        hear(page)
        page.goto(given["address"])
        page.wait_for_selector("table.rollouts")
        told["tops"][width] = page.evaluate(top)
    told["folded"] = page.locator(".charts svg").first.is_visible()
    page.click("summary:has-text('Charts')")
    told["open"] = page.locator(".charts svg").first.is_visible()
    page.reload()
    page.wait_for_selector("table.rollouts")
    page.emulate_media(media="print")
    told["printed"] = page.locator(".charts svg").first.is_visible()
"""


async def test_the_list_begins_on_the_first_screen_and_charts_are_one_click_away(tmp_path: Path) -> None:
    await finished_run(tmp_path / "good")
    async with served(tmp_path / "good") as seen:
        told = await visit(TOPS, address=seen.server.address)
    tops = cast("dict[str, float]", told["tops"])
    assert tops["1280"] <= 360
    assert tops["390"] <= 760
    assert (told["folded"], told["open"], told["printed"], told["said"]) == (False, True, True, [])
