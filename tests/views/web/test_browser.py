"""`hub view` in a real browser: every page, its keys, its table, and nothing asked of anybody else."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import cast
from urllib.parse import unquote

import pytest
from anyio import to_thread

from rollouthub import Score
from rollouthub.store.notes import NoteChange, add
from tests.store.records import record, write
from tests.tui.made import finished_run, hostile_run, worse_run
from tests.views.report.played import HOSTILE

from .conftest import served

pytestmark = pytest.mark.live

FOREIGN = Path(__file__).parents[3] / ".ci" / "foreign"
BEGIN = """
import json, sys
from pathlib import Path
from typing import cast
from playwright.sync_api import sync_playwright

told = {"said": [], "asked": [], "wide": [], "dialogs": 0, "axe": []}
given = json.loads(sys.argv[2])
found = sorted(Path(sys.prefix).glob("lib/python3*/site-packages/axe_playwright_python/axe.min.js"))
axe = found[0].read_text() if found else None

def until(page, expression):
    for _ in range(300):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise TimeoutError(expression)

def hear(page):
    page.on("console", lambda message: told["said"].append(message.text))
    page.on("pageerror", lambda error: told["said"].append(str(error)))
    page.on("request", lambda asked: told["asked"].append(asked.url))
    page.on("dialog", lambda dialog: (told.update(dialogs=told["dialogs"] + 1), dialog.dismiss()))

with sync_playwright() as driver:
    chromium = driver.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
"""
END = """
    chromium.close()
print(json.dumps(told))
"""
EVERY_PAGE = """
    for width, scheme in ((1280, "light"), (390, "dark"), (390, "light"), (1280, "dark")):
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        hear(page)
        page.goto(given["address"])
        page.wait_for_selector("h1")
        for name, path in given["pages"].items():
            page.goto(given["base"] + path)
            page.wait_for_selector("h1")
            page.wait_for_load_state("networkidle")
            if page.evaluate("document.scrollingElement.scrollWidth > innerWidth"):
                told["wide"].append([name, width])
            if axe:
                page.evaluate(axe)
                broken = page.evaluate("axe.run()")["violations"]
                told["axe"] += [[name, width, scheme, each["id"], each["nodes"][0]["html"][:200]] for each in broken]
            if folder := given["pictures"]:
                page.screenshot(path=f"{folder}/view-{name}-{width}-{scheme}.png")
        context.close()
    told["has_axe"] = axe is not None
"""
CUT = """() => {
    const boxes = [...document.querySelectorAll('main td, main .tile b')];
    const shown = boxes.filter((each) => each.getClientRects().length);
    const figures = shown.filter((each) => /^[-+(]?[$#<]?[0-9]/.test(each.textContent.trim()));
    const isCut = (each) => {
        const range = document.createRange();
        range.selectNodeContents(each);
        const box = range.getBoundingClientRect();
        return box.width && (box.right > innerWidth + 1 || box.left < -1
            || (getComputedStyle(each).overflowX !== 'visible' && each.scrollWidth > each.clientWidth + 1));
    };
    return [figures.length, figures.filter(isCut).map((each) => each.textContent.trim())];
}"""
"""The number of figures in tables and tiles, and those of which a part is out of view."""
SMALL = """
    told["figures"], told["reasons"], told["scores"] = {}, [], []
    context = chromium.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    hear(page)
    page.goto(given["address"])
    page.wait_for_selector("h1")
    shown = "name => [...document.querySelectorAll(name)].map(each => each.getClientRects().length && each.innerText)"
    for name, path in given["pages"].items():
        page.goto(given["base"] + path)
        page.wait_for_load_state("networkidle")
        told["figures"][name] = page.evaluate(given["cut"])
        if name == "review":
            told["reasons"] = page.evaluate(shown, "tbody .c-why")
            told["buttons"] = page.evaluate(shown, "tbody .c-review button")
        if name == "board":
            told["scores"] = page.evaluate(shown, "tbody .c-mean")
    page.goto(given["base"] + given["pages"]["run"])
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1000})
    told["printed"] = page.eval_on_selector(".rollouts tbody tr:not(.space)", "row => getComputedStyle(row).display")
    told["charts"] = page.evaluate('''[...document.querySelectorAll('.charts section')].filter(
        (each) => each.getBoundingClientRect().right > innerWidth + 1).length''')
"""
COVERED = """() => {
    const table = document.querySelector('#rows').getBoundingClientRect();
    const body = document.querySelector('#rows tbody').getBoundingClientRect();
    const rows = [...document.querySelectorAll('#rows tbody tr:not(.space)')];
    const first = rows[0]?.getBoundingClientRect(), last = rows[rows.length - 1]?.getBoundingClientRect();
    return first && first.top <= Math.max(100, body.top + 2) && last.bottom >= Math.min(innerHeight, table.bottom) - 2;
}"""
"""Whether every row that is in view is there."""
DRIVE = """
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    hear(page)
    page.goto(given["address"])
    page.wait_for_selector("table.rollouts")
    told["address"] = page.url
    told["cookies"] = [[c["httpOnly"], c["sameSite"], c["path"] != "/"] for c in context.cookies()]
    told["script_sees"] = page.evaluate("document.cookie")
    here = "document.querySelector('tr.here')?.getAttribute('aria-rowindex')"
    page.keyboard.press("j")
    until(page, here + " === '2'")
    page.keyboard.press("j")
    until(page, here + " === '3'")
    page.keyboard.press("G")
    until(page, here + " === '5001'")
    told["last"] = page.inner_text("tr.here .c-task")
    told["rows"] = page.locator("#rows tbody tr").count()
    page.keyboard.press("k")
    until(page, here + " === '5000'")
    told["in_view"] = page.evaluate('''() => {
        const box = document.querySelector('tr.here').getBoundingClientRect();
        return box.top > 0 && box.bottom <= innerHeight;
    }''')
    for place in range(0, 5000, 83):
        page.evaluate("at => scrollTo({top: at * 36, behavior: 'instant'})", place)
        until(page, given["covered"])
    until(page, "location.search.includes('offset=')")
    page.reload()
    until(page, "scrollY > 10000")
    page.goto(given["base"] + "run/many")
    page.keyboard.press("/")
    page.keyboard.type("reward < 1 and task ~ 'g12'")
    page.keyboard.press("Enter")
    page.wait_for_url("**filter=**")
    told["filtered"] = page.get_attribute("#rows", "data-total")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rollout/**")
    told["rollout"] = page.url
    page.keyboard.press("]")
    page.wait_for_url(lambda url: "/rollout/" in url and url != told["rollout"])
    page.keyboard.press("j")
    until(page, "location.hash === '#turn-1' || location.hash === '#turn-2'")
    page.go_back()
    page.wait_for_url(told["rollout"])
    page.keyboard.press("u")
    page.wait_for_url("**/run/many?filter=**")
    page.wait_for_selector("table.rollouts")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog[open]", state="hidden")
    page.keyboard.press("Escape")
    page.wait_for_selector("table.runs")
    page.goto(told["rollout"] + "#turn-2")
    told["deep"] = page.locator("#turn-2").count() == 1 and "calculate" in page.inner_text("main")
    stranger = chromium.new_context().new_page()
    told["stranger"] = stranger.goto(given["base"] + "run/many").status
    plain = chromium.new_context(java_script_enabled=False)
    plain.add_cookies(context.cookies())
    bare = plain.new_page()
    bare.goto(given["base"] + "run/many")
    bare.click("text=Next")
    told["second_page"] = bare.inner_text(".pages")
"""
FILES = """
    context = chromium.new_context()
    page = context.new_page()
    hear(page)
    page.goto("file://" + given["index"])
    page.click("table.runs td.c-run a")
    page.wait_for_selector("table.rollouts")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/rollout/**")
    page.wait_for_selector("#turn-1")
    first = page.url
    page.keyboard.press("]")
    page.wait_for_url(lambda url: "/rollout/" in url and url != first)
    page.keyboard.press("u")
    page.wait_for_selector("table.rollouts")
"""


async def visit(script: str, **given: object) -> dict[str, object]:
    """What a browser that follows a script tells."""
    python, browser = FOREIGN / "browser" / "bin" / "python", shutil.which("chromium")
    if not python.exists() or browser is None:
        pytest.skip("chromium and playwright are not installed; run .ci/foreign.sh")
    command = [str(python), "-c", BEGIN + script + END, browser, json.dumps(given)]
    done = await to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def urls(told: Mapping[str, object]) -> list[str]:
    """The addresses that a browser asked for."""
    asked = told["asked"]
    assert isinstance(asked, list)
    return [str(url) for url in cast(list[object], asked)]


@pytest.mark.parametrize(
    "names",
    [
        ("runs", "run", "filter", "tasks", "task", "report", "rollout", "compare", "rude", "hostile"),
        ("review", "note", "board", "receipt"),
    ],
    ids=["records", "people"],
)
async def test_every_page_is_quiet_fits_and_can_be_used_by_all(tmp_path: Path, names: tuple[str, ...]) -> None:
    good, worse, rude = tmp_path / "good", tmp_path / "worse", tmp_path / "rude"
    await finished_run(good)
    await worse_run(worse)
    await hostile_run(rude)
    (tmp_path / "good.receipt.json").write_text("{}")
    async with served(good, roots=(tmp_path,)) as seen:
        page = (await seen.get("run/good")).text
        rollout = re.search(r'href="[^"]*(run/good/rollout/[^"#]*)"', page)
        hostile = re.search(r'href="[^"]*(run/rude/rollout/([^"#]*))"', (await seen.get("run/rude")).text)
        task = re.search(r'href="[^"]*(run/good/task/[^"#]*)"', (await seen.get("run/good/tasks")).text)
        assert rollout and hostile and task
        add(rude, NoteChange(unquote(hostile[2]), turn=1, tags=("odd",), comment=HOSTILE, star=True))
        pages = {
            "runs": "",
            "run": "run/good",
            "filter": "run/good?filter=rewrd+%3C+1",
            "tasks": "run/good/tasks",
            "task": task[1],
            "report": "run/good/report",
            "rollout": rollout[1],
            "compare": "compare?run=good&run=worse",
            "rude": "run/rude",
            "hostile": hostile[1],
            "review": "run/good?review=yes",
            "note": f"run/rude/note?rollout={hostile[2]}&turn=1",
            "board": "board",
            "receipt": "run/good/receipt",
        }
        folder = os.environ.get("ROLLOUTHUB_PICTURES")
        pages = {name: pages[name] for name in names}
        told = await visit(EVERY_PAGE, address=seen.server.address, base=seen.base, pages=pages, pictures=folder)
        origin = seen.server.guard.origin
    asked = urls(told)
    assert [url for url in asked if not url.startswith((origin, "data:"))] == []
    assert (told["said"], told["dialogs"], told["wide"]) == ([], 0, [])
    assert told["axe"] == []
    assert told["has_axe"], "axe-core is not installed beside playwright; run .ci/foreign.sh"


async def test_a_phone_and_paper_show_every_figure(tmp_path: Path) -> None:
    await finished_run(tmp_path / "good")
    await worse_run(tmp_path / "worse")
    async with served(tmp_path / "good", roots=(tmp_path,)) as seen:
        pages = {
            "runs": "",
            "run": "run/good",
            "tasks": "run/good/tasks",
            "report": "run/good/report",
            "compare": "compare?run=good&run=worse",
            "review": "run/good?review=yes",
            "board": "board",
        }
        told = await visit(SMALL, address=seen.server.address, base=seen.base, pages=pages, cut=CUT)
    figures = cast("dict[str, tuple[int, list[str]]]", told["figures"])
    assert {name: cut for name, (_, cut) in figures.items()} == {name: [] for name in pages}
    assert all(number for number, _ in figures.values()), figures
    for each in ("reasons", "buttons", "scores"):
        shown = cast("list[object]", told[each])
        assert shown and all(shown), each
    assert (told["printed"], told["charts"], told["said"]) == ("table-row", 0, [])


async def test_a_large_table_keys_links_and_back_work_as_in_the_terminal(tmp_path: Path) -> None:
    made = [record(f"g{n}-{s}", score=Score(reward=float(s % 2))) for n in range(1250) for s in range(4)]
    await write(tmp_path / "many", made)
    async with served(tmp_path / "many") as seen:
        told = await visit(DRIVE, address=seen.server.address, base=seen.base, covered=COVERED)
        origin = seen.server.guard.origin
    assert "token" not in str(told["address"])
    assert told["cookies"] == [[True, "Strict", True]]
    assert told["script_sees"] == ""
    assert told["last"] == "test/g1249"
    rows = told["rows"]
    assert isinstance(rows, int) and rows < 300
    assert told["in_view"] is True
    assert told["filtered"] == "122"
    assert told["deep"] is True
    assert told["stranger"] == 401
    assert "101–200 of 5,000" in str(told["second_page"])
    assert told["said"] == []
    asked = urls(told)
    assert [url for url in asked if not url.startswith((origin, "data:"))] == []


async def test_the_pages_work_as_files(tmp_path: Path) -> None:
    from rollouthub.views.report.redacted_text import Plainness
    from rollouthub.views.web.bundle import write_bundle

    await finished_run(tmp_path / "good")
    write_bundle([tmp_path / "good"], tmp_path / "pages", "sample == 1", Plainness(lambda text: text))
    told = await visit(FILES, index=str(tmp_path / "pages" / "index.html"))
    asked = urls(told)
    assert (told["said"], [url for url in asked if not url.startswith(("file:", "data:"))]) == ([], [])
