"""The pages in a real browser, with and without JavaScript; `.ci/foreign.sh` installs what drives it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from tests.registry.server.kinds import FOREIGN
from tests.registry.server.publishers import Publisher
from tests.registry.server.serving import bearer, served

pytestmark = pytest.mark.live

HOSTILE = """<script>alert(1)</script><img src=//x onerror=alert(1)>" onmouseover="alert(1) \u202eesrever\u0007 """
VISIT = """
import json, sys
from playwright.sync_api import sync_playwright

url, browser = sys.argv[1:3]
told = {"said": [], "elsewhere": [], "dialogs": 0, "overflow": []}

def visit(page, path):
    page.goto(url + path)
    wide = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
    if wide > 0:
        told["overflow"].append([path, page.viewport_size["width"], wide])

with sync_playwright() as driver:
    chromium = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
    for width in (1000, 320):
        for is_scripted in (True, False):
            context = chromium.new_context(
                viewport={"width": width, "height": 700}, java_script_enabled=is_scripted, color_scheme="dark"
            )
            page = context.new_page()
            page.on("console", lambda message: told["said"].append(message.text))
            page.on("pageerror", lambda error: told["said"].append(str(error)))
            page.on("request", lambda asked: asked.url.startswith(url) or told["elsewhere"].append(asked.url))
            page.on("dialog", lambda dialog: (told.update(dialogs=told["dialogs"] + 1), dialog.dismiss()))
            visit(page, "/")
            page.get_by_role("searchbox").fill("crossw")
            page.get_by_label("Order").select_option("hardest")
            page.get_by_role("button", name="Search").click()
            told["found"] = page.locator(".cards a.name").all_inner_texts()
            page.get_by_role("link", name="lab/crosswords").click()
            told["install"] = page.locator("pre").inner_text()
            told["baselines"] = page.locator("table").first.inner_text()
            page.get_by_role("link", name="1.1.0").click()
            told["notice"] = page.locator(".notice").inner_text()
            for path in ("/packages/hostile/markup", "/packages/lab/crosswords", "/packages/lab/crosswords/1.1.0"):
                visit(page, path)
            visit(page, "/packages/hostile/markup")
            told["hostile"] = page.locator("main p").first.inner_text()
            told["elements"] = page.locator("main script, main img, main b").count()
            page.get_by_role("link", name="rollouthub registry").click()
            told["home"] = page.url == url + "/"
            context.close()
    chromium.close()
print(json.dumps(told))
"""


async def test_people_search_read_and_are_not_attacked(tmp_path: Path) -> None:
    python, browser = FOREIGN / "browser" / "bin" / "python", shutil.which("chromium")
    if not python.exists() or browser is None:
        pytest.skip("chromium and playwright are not installed; run .ci/foreign.sh")
    lab, hostile = Publisher(tmp_path), Publisher(tmp_path)
    async with served(tmp_path / "hub") as hub:
        token = hub.token("*")
        for version in ("1.0.0", "1.1.0"):
            said: dict[str, Any] = {"description": "Clues that contradict.", "baselines": [("lab/big", 0.25, 64)]}
            assert (await hub.publish(lab.offer("lab/crosswords", version, **said), token)).status == 201
        yank = "/envhub/v1/packages/lab/crosswords/1.1.0/yank"
        await hub.ask("POST", yank, json={"reason": "<b>wrong</b>"}, headers=bearer(token))
        said = {"description": HOSTILE + "W" * 600, "baselines": [(HOSTILE, 1e300, 9)]}
        trap = hostile.offer("hostile/markup", "1.0.0-" + "a" * 50, **said)
        assert (await hub.publish(trap, token)).status == 201
        command = [str(python), "-c", VISIT, hub.url, browser]
        done = await to_thread.run_sync(
            lambda: subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["said"], told["elsewhere"], told["dialogs"], told["overflow"]) == ([], [], 0, [])
    assert told["found"] == ["lab/crosswords"]
    assert told["install"].strip() == f"hub install lab/crosswords@1.0.0 --registry {hub.url}"
    assert "0.250" in told["baselines"]
    assert "yanked: <b>wrong</b>" in told["notice"] and "Take 1.0.0" in told["notice"]
    assert told["hostile"].startswith("<script>alert(1)</script>") and "\u202e" not in told["hostile"]
    assert (told["elements"], told["home"]) == (0, True)
