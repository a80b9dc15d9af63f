"""`hub watch --web` in a real browser: the screen is drawn, keys work, nothing is asked of anybody else."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from tests.store.records import record, write

pytestmark = pytest.mark.live

FOREIGN = Path(__file__).parents[3] / ".ci" / "foreign"
HUB = [sys.executable, "-c", "from rollouthub.cli.main import main; main()"]
VISIT = """
import json, sys
from playwright.sync_api import sync_playwright

address, picture = sys.argv[2:4]
told = {"said": [], "asked": []}
with sync_playwright() as driver:
    chromium = driver.chromium.launch(executable_path=sys.argv[1], args=["--no-sandbox"])
    context = chromium.new_context(viewport={"width": 1100, "height": 700})
    page = context.new_page()
    page.on("console", lambda message: told["said"].append(message.text))
    page.on("pageerror", lambda error: told["said"].append(str(error)))
    page.on("request", lambda asked: told["asked"].append(asked.url))
    page.goto(address)
    page.wait_for_selector("body.-first-byte")
    told["address"] = page.url
    told["title"] = page.title()
    told["cookies"] = [[c["name"], c["httpOnly"], c["sameSite"], c["path"]] for c in context.cookies()]
    told["script_sees"] = page.evaluate("document.cookie")
    page.wait_for_timeout(1500)
    page.screenshot(path=picture)
    page.keyboard.type("?")
    page.wait_for_timeout(1500)
    page.screenshot(path=picture.replace(".png", "-help.png"))
    page.keyboard.type("q")
    page.wait_for_timeout(500)
    page.keyboard.type("q")
    page.wait_for_selector("body.-closed")
    told["over"] = page.locator(".closed p").inner_text()
    stranger = chromium.new_context().new_page()
    told["stranger"] = stranger.goto(told["address"]).status
    chromium.close()
print(json.dumps(told))
"""


def test_the_screen_is_drawn_in_a_browser_that_asks_nobody_else(tmp_path: Path) -> None:
    python, browser = FOREIGN / "browser" / "bin" / "python", shutil.which("chromium")
    if not python.exists() or browser is None:
        pytest.skip("chromium and playwright are not installed; run .ci/foreign.sh")
    anyio.run(write, tmp_path / "runs" / "seen-in-a-browser", [record("g1-0"), record("g1-1")])
    environ = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [*HUB, "watch", "--web", "--no-open", "--root", "runs"]
    picture = tmp_path / "web.png"
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None
            visit = [str(python), "-c", VISIT, browser, address[0], str(picture)]
            done = subprocess.run(visit, capture_output=True, text=True, timeout=120, check=False)
        finally:
            server.terminate()
    assert server.returncode == 0
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    origin = re.match(r"http://127\.0\.0\.1:\d+/", address[0])
    assert origin is not None
    assert [url for url in told["asked"] if not url.startswith((origin[0], "data:"))] == []
    assert [said for said in told["said"] if not re.match(r"ping=\d+ms|CLOSED|.*GPU stall", said)] == []
    assert "token" not in told["address"]
    assert told["title"] == "hub watch"
    assert [(httponly, same, path != "/") for _, httponly, same, path in told["cookies"]] == [(True, "Strict", True)]
    assert told["script_sees"] == ""
    assert told["over"].startswith("This session is over")
    assert told["stranger"] == 401
    if folder := os.environ.get("ROLLOUTHUB_PICTURES"):
        for file in tmp_path.glob("web*.png"):
            shutil.copy(file, folder)
