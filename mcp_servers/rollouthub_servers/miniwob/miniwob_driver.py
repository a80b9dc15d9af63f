"""Plays MiniWoB++ in one Chromium: each session is an episode in a page of its own.

The library's pages run as they are: their problem, seed, reward and deadline. Time stands still in them while nobody
acts, and goes on by `action_seconds` with each action.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rollouthub_servers.foreign.serving import Refused, Session, arguments, serve
from rollouthub_servers.miniwob.devtools import Browser, BrowserGone, ProtocolRefusal
from rollouthub_servers.miniwob.element_list import listed
from rollouthub_servers.miniwob.page_actions import Command, Mouse, pressed, typed
from rollouthub_servers.miniwob.page_server import PageServer
from rollouthub_servers.miniwob.web_page import Page, PageFailure, Pages
from rollouthub_servers.step_api.world import text

WIDTH, HEIGHT = 160, 210
"""Size of a task in its page, in pixels."""
MOST_WAIT = 60.0
"""Maximum seconds of one `wait`."""
READY_TRIES = 20
_ID = re.compile(r'id="miniwob/([\w.-]+)-v\d+"')
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--disable-smooth-scrolling",
    "--disable-threaded-scrolling",
    "--disable-features=Translate,BackForwardCache,OptimizationHints,MediaRouter,DialMediaRouteProvider,"
    "SpareRendererForSitePerProcess",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--no-proxy-server",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
    "--mute-audio",
    "--password-store=basic",
    "--js-flags=--max-old-space-size=512",
)


class PageEpisode:
    """One episode of a task, from its seed to its reward."""

    def __init__(self, pages: Pages, settings: Mapping[str, Any]) -> None:
        self.pages, self.settings = pages, settings
        self.seconds: float = settings["seconds"]
        self.page: Page | None = None
        self.mouse = Mouse(WIDTH, HEIGHT)
        self.copied = ""
        """What was copied here: the browser's own clipboard is shared by all pages, so nothing is pasted from that."""
        self.reward = 0.0
        self._refs = set[int]()
        self._told = ""

    def describe(self, id: str, players: int | None) -> dict[str, Any]:
        """Begin a task, to see whether it can be played."""
        return {"players": 1, "prompt": "", "opening": self.reset(id, 0, 1)}

    def reset(self, id: str, seed: int, players: int, mode: str = "test") -> dict[str, Any]:
        """Begin a task's episode from a seed."""
        self.page = page = self.pages.take(id, self.seconds)
        page.run(f"__miniwob.start({int(seed)}, {'test' if mode == 'test' else 'train'!r})")
        if not any(page.run("__miniwob.isReady()") for _ in range(READY_TRIES)):
            raise PageFailure(f"{id} is not ready")
        return self._turn(0.0)

    def step(self, action: dict[str, Any]) -> dict[str, Any]:
        """Act, and see what comes of it."""
        page = self.page
        assert page is not None, "an episode begins with reset"
        page.within(self.seconds)
        try:
            waited = self._act(page, dict(action))
            return self._turn(self.settings["action_seconds"] if waited is None else waited)
        except (BrowserGone, ProtocolRefusal, PageFailure) as error:
            page.is_gone = True
            page.browser.require(self.settings["alive_seconds"])
            return {"broke": f"{type(error).__name__}: {error}"}

    def _turn(self, seconds: float) -> dict[str, Any]:
        assert self.page is not None
        seen = self.page.run(f"__miniwob.look({round(1000 * seconds)})")
        self.reward = float(seen["raw"])
        if seen["done"]:
            return {"seat": None, "shown": [], "over": True, "rewards": [self.reward]}
        words, self._refs = listed(seen["elements"])
        if seen["utterance"] != self._told:
            self._told = seen["utterance"]
            words = f"Task: {self._told}\n\n{words}"
        shown = text(words)
        if self.settings["render"] == "picture":
            shown.append({"png": self.page.picture(WIDTH, HEIGHT)})
        return {"seat": 0, "shown": shown, "over": False, "rewards": [self.reward]}

    def _act(self, page: Page, action: dict[str, Any]) -> float | None:
        """Do what is asked for; the seconds that pass with it, if not as many as with all actions."""
        do = action.pop("do")
        if do == "wait":
            return self._waited(**action)
        if do == "click_element":
            self._click_element(page, **action)
        elif do == "type_text":
            self._type_text(page, **action)
        elif do == "press_key":
            page.all(self._keys(page, **action))
        else:
            page.all(self._mouse(do, **action))
        return None

    def _waited(self, seconds: Any) -> float:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= MOST_WAIT:
            raise Refused(f"seconds={seconds!r}: it is 0 to {MOST_WAIT:g}"[:200])
        return float(seconds)

    def _click_element(self, page: Page, ref: Any) -> None:
        if isinstance(ref, bool) or not isinstance(ref, int) or ref not in self._refs:
            raise Refused(f"ref={ref!r}: no element that was listed last has this number"[:200])
        if page.run(f"__miniwob.click({ref})") is not True:
            raise Refused(f"ref={ref}: it cannot be clicked; click its place, or the element that holds it")

    def _type_text(self, page: Page, text: Any, ref: Any = None) -> None:
        strokes = list(typed(text))
        if ref is not None:
            self._click_element(page, ref)
        page.all(strokes)

    def _keys(self, page: Page, key: Any) -> Iterable[Command]:
        strokes = list(pressed(key))
        if key in ("C-c", "C-x"):
            self.copied = str(page.run("__miniwob.selected()")) or self.copied
        elif key == "C-v":
            return [("Input.insertText", {"text": self.copied})]
        return strokes

    def _mouse(self, do: str, **given: Any) -> Iterable[Command]:
        mouse = self.mouse
        if do == "drag":
            ends = [mouse.checked(given[f"{end}_x"], given[f"{end}_y"]) for end in ("from", "to")]
            return list(mouse.drag(ends[0], ends[1]))
        x, y = mouse.checked(given["x"], given["y"])
        if do == "click":
            return list(mouse.click(x, y))
        if do == "double_click":
            return list(mouse.click(x, y, 2))
        if do == "move_mouse":
            return [mouse.move(x, y)]
        if do == "mouse_down":
            return [mouse.move(x, y), mouse.press(x, y)]
        if do == "mouse_up":
            return [mouse.move(x, y), mouse.release(x, y)]
        assert do == "scroll", do
        return list(mouse.scroll(x, y, given["direction"]))

    def close(self) -> None:
        """Let go of the page."""
        if self.page is not None:
            page, self.page = self.page, None
            self.pages.give_back(page, self.seconds)


def registered(folder: Path) -> list[str]:
    """The ids that the library registers, of pages that it has."""
    known = _ID.findall((folder / "registration.py").read_text(encoding="utf-8"))
    return list(dict.fromkeys(known))


def sessions(pages: Pages, settings: Mapping[str, Any]) -> Session:
    """What the hub may ask of one session."""
    episode = PageEpisode(pages, settings)
    ids = registered(Path(settings["library"]))

    def describe(id: str, players: int | None) -> dict[str, Any]:
        if not (Path(settings["library"]) / "html" / "miniwob" / f"{id}.html").is_file():
            return {
                "refused": "it is a copy of an airline's site with scripts in attributes, and those are not run here"
            }
        try:
            return episode.describe(id, players)
        except (PageFailure, BrowserGone, ProtocolRefusal) as error:
            return {"refused": str(error)}

    return {
        "ids": lambda: ids,
        "describe": describe,
        "reset": episode.reset,
        "step": episode.step,
        "close": episode.close,
    }


def main() -> None:
    """Start the browser, and serve."""
    settings = arguments()
    library = Path(settings["library"])
    profile = Path(os.environ["TMPDIR"]) / "profile"
    browser = Browser([settings["chromium"], *_FLAGS, f"--user-data-dir={profile}"])
    server = PageServer(library / "html")
    browser.call("Browser.getVersion", seconds=60.0)
    pages = Pages(browser, f"{server.address}/miniwob", settings["script"], settings["pages"])
    serve(lambda: sessions(pages, settings))


if __name__ == "__main__":
    main()
