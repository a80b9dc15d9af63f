"""Draws `hub watch` from real runs: one that plays in another process meanwhile, and ones that ended."""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from textual.pilot import Pilot

from rollouthub_tui.app.app import WatchApp

SIZE = (120, 34)
HUB = Path(sys.executable).parent / "hub"
OPTIONS = "--limit 40 --repeats 8 --retries 0 -c 24 -q"
PLAY = f"run arithmetic customer_service {OPTIONS} --seed {{seed}} -o runs/{{name}} -m {{model}}"
ENDED = (
    ("before", 7, "mock/solver?accuracy=0.7&fail=0.01&latency=0.02..0.2"),
    ("after", 7, "mock/solver?accuracy=0.45&fail=0.02&latency=0.02..0.2"),
)
LIVE = ("sums", 8, "mock/solver?accuracy=0.6&fail=0.02&latency=0.3..1.6")
_SECONDS_TO_WATCH = 12.0

Keep = Callable[[str, str], object]
"""Keeps a drawing under a name."""


def command(name: str, seed: int, model: str) -> list[str]:
    """A run that is watched."""
    return [str(HUB), *PLAY.format(seed=seed, name=name, model=model).split()]


def tidy(svg: str, fonts: str) -> str:
    """A drawing that refers to nothing outside itself."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", fonts)
    svg = re.sub(r"<!-- .*? -->", "", svg)
    svg = re.sub(r"terminal-\d+-", "w-", svg)
    svg = svg.replace("<text ", '<text xml:space="preserve" ')
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def draw_watch(keep: Keep) -> None:
    """Play the runs, and walk through them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        homes = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "runtime", "TMPDIR": "temporary"}
        for each in homes.values():
            (folder / each).mkdir(mode=0o700)
        environ = {**os.environ, **{key: str(folder / each) for key, each in homes.items()}}
        tempfile.tempdir = environ["TMPDIR"]
        os.chdir(folder)
        for ended in ENDED:
            subprocess.run(command(*ended), env=environ, check=False, stdout=subprocess.DEVNULL)
        with subprocess.Popen(command(*LIVE), env=environ, stdout=subprocess.DEVNULL) as live:
            try:
                time.sleep(_SECONDS_TO_WATCH)
                asyncio.run(_walk_live(environ, keep))
            finally:
                live.terminate()
        asyncio.run(_walk_ended(environ, keep))
        tempfile.tempdir = None
        os.chdir(Path(__file__).parent)


async def _press(pilot: Pilot[None], *keys: str, seconds: float = 1.0) -> None:
    await pilot.press(*keys)
    await pilot.pause(seconds)


async def _walk_live(environ: Mapping[str, str], keep: Keep) -> None:
    app = WatchApp((Path("runs"),), environ)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause(2.5)
        keep("watch-runs", app.export_screenshot())
        await _press(pilot, "enter", seconds=3.5)
        keep("watch-run", app.export_screenshot())
        await _press(pilot, "2", seconds=2)
        keep("watch-live", app.export_screenshot())
        await _press(pilot, "4", seconds=2.5)
        keep("watch-machines", app.export_screenshot())


async def _walk_ended(environ: Mapping[str, str], keep: Keep) -> None:
    app = WatchApp((Path("runs"),), environ, run=Path("runs/after"))
    async with app.run_test(size=SIZE) as pilot:
        await _press(pilot, "2", seconds=2)
        keep("watch-rollouts", app.export_screenshot())
        await _press(pilot, "3")
        keep("watch-tasks", app.export_screenshot())
        await _press(pilot, "2", "G", "enter", seconds=2)
        keep("watch-rollout", app.export_screenshot())
        for key, name in (("2", "score"), ("3", "tokens"), ("4", "timings")):
            await _press(pilot, key)
            keep(f"watch-{name}", app.export_screenshot())
        await _press(pilot, "escape", "g", "w", "enter", "d", seconds=2)
        keep("watch-pair", app.export_screenshot())
        app.open_comparison(Path("runs/before"), Path("runs/after"))
        await pilot.pause(3)
        keep("watch-compare", app.export_screenshot())
