"""`Page`: one page of the browser, which plays one episode at a time; `Pages` keeps those that wait for the next."""

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from rollouthub_servers.miniwob.devtools import Browser, BrowserGone, ProtocolRefusal, wait_for
from rollouthub_servers.miniwob.page_actions import Command

WIDTH, HEIGHT = 500, 320
"""Size of the window in pixels, as the library has it."""
MOST_EPISODES = 200
"""Episodes after which a page is made anew."""
_TURNED_DOWN = {"errorReason": "Aborted"}


class PageFailure(Exception):
    """The page's own code failed."""


class Page:
    """A page in a context, and so in a process, of its own."""

    def __init__(self, browser: Browser, address: str, script: str, seconds: float) -> None:
        self.browser, self.address = browser, address
        self.task = ""
        """The task that is loaded, and not begun; empty where none is."""
        self.episodes = 0
        self.is_gone = False
        self._deadline = time.monotonic() + seconds
        self._loading: str | None = None
        self._loaded = threading.Event()
        self._context = self._own(browser, "Target.createBrowserContext", disposeOnDetach=True)["browserContextId"]
        made = self._own(browser, "Target.createTarget", url="about:blank", browserContextId=self._context)
        attached = self._own(browser, "Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self.session: str = attached["sessionId"]
        browser.on_events(self.session, self._on_event)
        self.all(
            (
                ("Page.enable", {}),
                ("Inspector.enable", {}),
                ("Fetch.enable", {"patterns": [{"urlPattern": "*", "resourceType": "Document"}]}),
                ("Page.addScriptToEvaluateOnNewDocument", {"source": script}),
                ("Emulation.setFocusEmulationEnabled", {"enabled": True}),
                ("Page.setInterceptFileChooserDialog", {"enabled": True}),
            )
        )
        self.resize(WIDTH, HEIGHT)

    def _own(self, browser: Browser, method: str, **given: Any) -> dict[str, Any]:
        return browser.call(method, seconds=self._left(), **given)

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def within(self, seconds: float) -> None:
        """Bound what is done next by a time."""
        self._deadline = time.monotonic() + seconds

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _on_event(self, name: str, given: Mapping[str, Any]) -> None:
        if name == "Fetch.requestPaused":
            self._pass(given)
        elif name == "Page.loadEventFired":
            self._loaded.set()
        elif name == "Page.javascriptDialogOpening":
            self.browser.send("Page.handleJavaScriptDialog", self.session, accept=False)
        elif name in ("Inspector.targetCrashed", "Inspector.detached"):
            self.is_gone = True
            self.browser.forget(self.session)
            self._loaded.set()

    def _pass(self, given: Mapping[str, Any]) -> None:
        """Let a document be loaded where that is the driver's wish; whatever else leads away leads nowhere."""
        number = given["requestId"]
        if self._loading is not None and given["request"]["url"] == self._loading:
            self._loading = None
            self.browser.send("Fetch.continueRequest", self.session, requestId=number)
        else:
            self.browser.send("Fetch.failRequest", self.session, requestId=number, **_TURNED_DOWN)

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """Send a command to the page and wait for its answer."""
        if self.is_gone:
            raise BrowserGone("the page is gone")
        return self.browser.call(method, self.session, seconds=self._left(), **given)

    def all(self, commands: Iterable[Command]) -> None:
        """Send commands one after the other, then wait for all of them."""
        if self.is_gone:
            raise BrowserGone("the page is gone")
        for answer in [self.browser.send(method, self.session, **given) for method, given in commands]:
            wait_for(answer, self._left())

    def run(self, expression: str) -> Any:
        """The value of an expression in the page.

        Raises:
            PageFailure: the page's code failed.
        """
        known = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=expression, **known)
        if (failed := answer.get("exceptionDetails")) is not None:
            words = failed.get("exception", {}).get("description") or failed.get("text", "")
            raise PageFailure(str(words).partition("\n")[0][:300])
        return answer["result"].get("value")

    def load(self, task: str) -> None:
        """Load a task anew, up to where its episode can begin."""
        self.task = ""
        self._loaded.clear()
        self._loading = f"{self.address}/{task}.html"
        answer = self.call("Page.navigate", url=self._loading)
        if "errorText" in answer or not self._loaded.wait(max(0.0, self._left())) or self.is_gone:
            raise BrowserGone(f"{task} does not load: {answer.get('errorText', 'it took too long')}")
        self.run("__miniwob.prepare()")
        self.task = task

    def picture(self, width: int, height: int) -> str:
        """What is seen of it, as a PNG file in base64."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        return self.call("Page.captureScreenshot", format="png", clip=clip, optimizeForSpeed=True)["data"]

    def dispose(self) -> None:
        """End the page and its process; it may hang."""
        self.is_gone = True
        self.browser.forget(self.session)
        with suppress(BrowserGone, ProtocolRefusal):
            self.browser.call("Target.disposeBrowserContext", seconds=10.0, browserContextId=self._context)


class Pages:
    """The pages of a browser: those that are free keep the task they had last, loaded anew."""

    def __init__(self, browser: Browser, address: str, script: str, most: int) -> None:
        self._new = browser, address, script
        self._free: list[Page] = []
        self._places = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()

    def take(self, task: str, seconds: float) -> Page:
        """A page that has loaded a task.

        Raises:
            BrowserGone: all pages are taken, or none loads it in time.
        """
        deadline = time.monotonic() + seconds
        if not self._places.acquire(timeout=seconds):
            raise BrowserGone(
                "its pages are all taken, and none came free in time; more browsers play more: --set browsers=N"
            )
        page: Page | None = None
        try:
            with self._lock:
                ready = [each for each in self._free if each.task == task] or self._free[:1]
                if ready:
                    page = ready[0]
                    self._free.remove(page)
            if page is None:
                page = Page(*self._new, seconds)
            page.within(deadline - time.monotonic())
            if page.task != task:
                page.load(task)
        except BaseException:
            if page is not None:
                page.dispose()
            self._places.release()
            raise
        page.episodes += 1
        return page

    def give_back(self, page: Page, seconds: float) -> None:
        """Take a page back, load its task anew, and keep it, unless it is gone or old."""
        try:
            if page.is_gone or page.episodes >= MOST_EPISODES:
                page.dispose()
                return
            page.within(seconds)
            page.load(page.task)
        except (BrowserGone, ProtocolRefusal):
            page.dispose()
        else:
            with self._lock:
                self._free.append(page)
        finally:
            self._places.release()
