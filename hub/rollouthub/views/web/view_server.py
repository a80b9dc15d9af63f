"""The server of `hub view`, on a loopback address, for one person."""

import signal
import sys
import tempfile
import webbrowser
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from rollouthub.errors import HubError
from rollouthub.http.asgi import Application, Receive, Scope, Send, answer, note_holder
from rollouthub.http.listener import bind_tcp, listening
from rollouthub.http.page_guard import HEADERS, HOST, PageGuard
from rollouthub.views.markup import tag
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.web.links import ALL, ServedLinks
from rollouthub.views.web.opened_runs import OpenedRuns
from rollouthub.views.web.row_query import RowQuery
from rollouthub.views.web.view_app import ViewPages

COOKIE = "hub-view"


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """What is served, and where."""

    runs: tuple[Path, ...]
    """The runs to begin with; none begins with the list."""
    roots: tuple[Path, ...]
    environ: Mapping[str, str]
    plainness: Plainness
    port: int = 0
    filter: str = ""
    """The filter that the first page begins with."""
    has_board: bool = False
    """Whether the leaderboard is the first page."""
    opens: bool = False
    """Whether to open a browser."""


class ViewServer:
    """The guarded pages, while they are served."""

    def __init__(self, options: ViewOptions, port: int) -> None:
        self.guard = PageGuard(port, COOKIE)
        roots = [*options.roots, *options.runs]
        self.runs = OpenedRuns(roots, options.environ, options.plainness)
        self._pages = ViewPages(self.runs, self.guard).application
        self._options = options

    @property
    def address(self) -> str:
        """The address of the page to begin with, with the token."""
        links = ServedLinks(self.guard.place)
        names = [self.runs.name_of(run) for run in self._options.runs]
        query = RowQuery(filter=self._options.filter) if self._options.filter else ALL
        match names:
            case _ if self._options.has_board:
                path = links.board(names)
            case []:
                path = links.runs()
            case [only]:
                path = links.run(only, query)
            case _:
                path = links.compare(names)
        return f"{self.guard.origin}{path}{'&' if '?' in path else '?'}token={self.guard.token}"

    async def prepare(self) -> None:
        """Read the run to begin with, so that its page is there when it is asked for."""
        for directory in self._options.runs[:1]:
            with suppress(HubError):
                async with self.runs.using(self.runs.name_of(directory)):
                    pass

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, if the guard lets it in."""
        if scope["type"] != "http":
            return
        guard = self.guard
        headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

        async def guarded(message: dict[str, object]) -> None:
            if message["type"] == "http.response.start":
                given = list[tuple[bytes, bytes]](message.get("headers", []))  # pyright: ignore
                named = {name for name, _ in given}
                message = {**message, "headers": [*given, *(pair for pair in headers if pair[0] not in named)]}
            await send(message)

        refused = guard.refusal(scope)
        if refused is not None:
            status, words = refused
            await answer(guarded, status, f"{words}\n".encode(), b"text/plain; charset=utf-8")  # pyright: ignore
            return
        note_holder(scope, guard.cookie.encode())
        if guard.given_token(scope) is not None:
            body = arrival(_without_token(scope)).encode()
            cookie = [(b"set-cookie", guard.set_cookie.encode()), (b"referrer-policy", b"no-referrer")]
            await answer(guarded, 200, body, b"text/html; charset=utf-8", cookie)  # pyright: ignore
            return
        await self._pages(scope, receive, guarded)  # pyright: ignore


def _without_token(scope: Scope) -> str:
    """The address of a request without the token."""
    parts = [part for part in scope["query_string"].decode("latin-1").split("&") if not part.startswith("token=")]
    path = scope["raw_path"].partition(b"?")[0].decode("latin-1")
    return path + (f"?{'&'.join(parts)}" if parts else "")


def arrival(address: str) -> str:
    """A page that leads to another address, so that a browser sends the cookie of this server with it."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("title", "hub view"),
        tag("link", rel="icon", href="data:,"),
        tag("meta", http_equiv="refresh", content=f"0;url={address}"),
    )
    body = tag("body", tag("main", tag("a", "hub view", href=address)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


@asynccontextmanager
async def view_served(options: ViewOptions) -> AsyncGenerator[ViewServer]:
    """The running server; it ends with the block.

    Raises:
        ConfigError: the port is in use, or this user may not use it.
    """
    bound = bind_tcp(HOST, options.port)
    server = ViewServer(options, bound.getsockname()[1])
    application: Application = server
    try:
        async with listening(application, bound):
            yield server
    finally:
        server.runs.close()


async def serve_view(options: ViewOptions) -> int:
    """Serve until Ctrl-C; returns the exit code."""
    async with view_served(options) as server:
        sys.stdout.write(
            f"hub view is at {server.address}\nEveryone who has the address can steer your runs. Ctrl-C ends it.\n"
        )
        sys.stdout.flush()
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        with _opened(server.address, options), anyio.open_signal_receiver(*signals) as told:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.prepare)
                async for _ in told:
                    break
                tasks.cancel_scope.cancel()
    return 0


@contextmanager
def _opened(address: str, options: ViewOptions) -> Generator[None]:
    """Open a browser at a local file that redirects to the address: every user could read the token in a command
    line.
    """
    environ = options.environ
    has_screen = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"
    if not options.opens or not has_screen:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="hub-view-") as folder:
        file = Path(folder) / "open.html"
        file.write_text(arrival(address))
        webbrowser.open(file.as_uri())
        yield
