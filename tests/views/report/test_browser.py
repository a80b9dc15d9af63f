"""A report in a real browser, with JavaScript allowed: nothing is asked for, said or run, and all of it can be read."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from anyio import to_thread

from rollouthub import Outcome
from rollouthub.views.report.write import write_report
from tests.views.report.played import broken, hostile, make_run, played, report_of

pytestmark = pytest.mark.live

FOREIGN = Path(__file__).parents[3] / ".ci" / "foreign"
VISIT = """
import json, sys
from playwright.sync_api import sync_playwright

told = {"said": [], "asked": [], "dialogs": 0, "wide": [], "elements": 0}

with sync_playwright() as driver:
    chromium = driver.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
    for width, scheme, media in ((1000, "light", "screen"), (360, "dark", "screen"), (800, "light", "print")):
        context = chromium.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        page = context.new_page()
        page.emulate_media(media=media)
        page.on("console", lambda message: told["said"].append(message.text))
        page.on("pageerror", lambda error: told["said"].append(str(error)))
        page.on("request", lambda asked: asked.url.startswith("file:") or told["asked"].append(asked.url[:60]))
        page.on("dialog", lambda dialog: (told.update(dialogs=told["dialogs"] + 1), dialog.dismiss()))
        page.goto("file://" + sys.argv[2])
        for details in page.locator("details").all():
            details.evaluate("found => { found.open = true }")
        page.mouse.move(width / 2, 300)
        page.wait_for_load_state("networkidle")
        wide = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
        if wide > 0:
            told["wide"].append([width, wide])
        told["elements"] += page.locator("script, iframe, form, object, [onload], [onerror]").count()
        told["styled"] = page.evaluate("getComputedStyle(document.querySelector('section')).borderRadius")
        told["title"] = page.title()
        told["heading"] = page.locator("h1").inner_text()
        told["pictures"] = page.locator("img").count()
        context.close()
    chromium.close()
print(json.dumps(told))
"""


@pytest.mark.parametrize("of", ["all that can be", "hostile text"])
async def test_a_report_opens_without_a_word_and_runs_nothing(tmp_path: Path, of: str) -> None:
    python, browser = FOREIGN / "browser" / "bin" / "python", shutil.which("chromium")
    if not python.exists() or browser is None:
        pytest.skip("chromium and playwright are not installed; run .ci/foreign.sh")
    rest = [played(n, s, reward=float(s)) for n in range(1, 20) for s in range(2)]
    first = hostile(0, "sha256:" + "0" * 64) if of == "hostile text" else broken(40, Outcome.AGENT_FAILED)
    await make_run(tmp_path / "run", [first, *rest])
    write_report(report_of(tmp_path / "run"), tmp_path / "report.html", "html")
    command = [str(python), "-c", VISIT, browser, str(tmp_path / "report.html")]
    done = await to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["said"], told["asked"], told["dialogs"], told["elements"]) == ([], [], 0, 0)
    assert told["wide"] == []
    assert told["styled"] not in ("", "0px")
    assert told["title"].endswith("rollouthub")
    assert "arithmetic" in told["heading"]
