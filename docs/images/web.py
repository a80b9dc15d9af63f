"""Photographs `hub watch --web` in a browser: python docs/images/web.py PYTHON-WITH-PLAYWRIGHT"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HUB = Path(sys.executable).parent / "hub"
RUN = "run arithmetic -m mock/solver?accuracy=0.4&latency=0.02..0.2&fail=0.03 --retries 0 --limit 40 --repeats 8 -c 24"
VISIT = """
import sys
from playwright.sync_api import sync_playwright

with sync_playwright() as driver:
    chromium = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
    page = chromium.new_page(viewport={"width": 1280, "height": 760})
    page.goto(sys.argv[1])
    page.wait_for_selector("body.-first-byte")
    page.wait_for_timeout(3000)
    for key in sys.argv[3]:
        page.keyboard.type(key)
        page.wait_for_timeout(1200)
    page.screenshot(path=sys.argv[2])
    chromium.close()
"""


def photograph(python: str, picture: Path, keys: str) -> None:
    """A run's screen, after a few keys."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([HUB, *RUN.split(), "--seed", "7", "-q", "-o", "runs/sums"], cwd=folder, check=False)
        command = [HUB, "watch", "sums", "--web", "--no-open"]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address is not None
            try:
                subprocess.run([python, "-c", VISIT, address[0], str(picture), keys], check=True)
            finally:
                server.terminate()


if __name__ == "__main__":
    photograph(sys.argv[1], HERE / "watch-web.png", sys.argv[2] if len(sys.argv) > 2 else "")
