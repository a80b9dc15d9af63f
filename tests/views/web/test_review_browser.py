"""Notes and reviews of `hub view` in a real browser, by the terminal's keys."""

from pathlib import Path

import pytest

from rollouthub import Outcome
from rollouthub.store.notes import RunNotes
from tests.store.records import record, write

from .conftest import served
from .test_browser import urls, visit
from .test_notes import run

__all__ = ["run"]

pytestmark = pytest.mark.live

WORK = """
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    hear(page)
    page.goto(given["address"])
    page.wait_for_selector("table.rollouts")
    page.keyboard.press("V")
    page.wait_for_url("**review=yes**")
    page.keyboard.press("j")
    until(page, "document.querySelector('tr.here') !== null")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rollout/g2-0?review=yes")
    page.keyboard.press("]")
    page.wait_for_url("**/rollout/g1-0?review=yes")
    page.keyboard.press("[")
    page.wait_for_url("**/rollout/g2-0?review=yes")
    page.keyboard.press("*")
    page.wait_for_url("**#notes")
    page.keyboard.press("#")
    page.keyboard.type("odd, v * c")
    page.keyboard.press("Enter")
    page.wait_for_selector(".noted:has-text('tags: odd')")
    page.keyboard.press("c")
    page.keyboard.type("<img src=x onerror=alert(1)>")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".noted:has-text('onerror')")
    told["told"] = page.inner_text(".noted")
    page.keyboard.press("v")
    page.wait_for_url("**/rollout/g1-0?review=yes")
    page.keyboard.press("u")
    page.wait_for_url("**/run/run?review=yes")
    page.keyboard.press("j")
    until(page, "document.querySelector('tr.here') !== null")
    page.keyboard.press("v")
    page.wait_for_selector("text=Nothing is left to review")
    plain = chromium.new_context(java_script_enabled=False)
    plain.add_cookies(context.cookies())
    bare = plain.new_page()
    bare.goto(given["base"] + "run/run/rollout/g3-0")
    bare.click("text=Star")
    bare.click("summary:has-text('Tags and comment')")
    bare.fill("#comment", "without script")
    bare.click("text=Add, as")
    told["bare"] = bare.inner_text(".noted")
    bare.click("text=Note …")
    bare.fill("#tags", "of a turn")
    bare.click("text=Set tags")
    told["turn"] = bare.inner_text("#turn-1 .noted")
"""
LARGE = """
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    hear(page)
    page.goto(given["address"])
    page.goto(given["base"] + "run/many?review=yes")
    here = "document.querySelector('tr.here')?.getAttribute('aria-rowindex')"
    page.keyboard.press("G")
    until(page, here + " === '601'")
    for _ in range(3):
        page.keyboard.press("k")
    until(page, here + " === '598'")
    page.keyboard.press("v")
    page.wait_for_url("**#at-596")
    until(page, here + " === '598'")
    told["left"] = page.inner_text("h2")
"""


async def test_the_queue_is_worked_through_by_the_keys_of_the_terminal(run: Path) -> None:
    async with served(run) as seen:
        told = await visit(WORK, address=seen.server.address, base=seen.base)
        origin = seen.server.guard.origin
    assert "★ starred\ntags: odd, v * c" in str(told["told"]) and "onerror=alert(1)>" in str(told["told"])
    assert "without script" in str(told["bare"]) and "★ starred" in str(told["bare"])
    assert told["turn"] == "tags: of a turn"
    assert (told["said"], told["dialogs"]) == ([], 0)
    assert [url for url in urls(told) if not url.startswith((origin, "data:"))] == []
    notes = RunNotes.read(run)
    assert {name for name, _, each in notes if each.is_reviewed} == {"g2-0", "g1-0"}


async def test_a_review_in_a_long_list_keeps_the_cursor_where_it_was(tmp_path: Path) -> None:
    made = [record(f"g{n}-0", score=None, outcome=Outcome.VERIFIER_FAILED) for n in range(600)]
    await write(tmp_path / "many", made)
    async with served(tmp_path / "many") as seen:
        told = await visit(LARGE, address=seen.server.address, base=seen.base)
    assert told["left"] == "599 of 600 left to review"
    assert told["said"] == []
