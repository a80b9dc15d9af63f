"""The server of `hub watch --web`, on a loopback address, for one person."""

import errno
import signal
import socket
import sys
import tempfile
import webbrowser
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
from aiohttp import web

from rollouthub.errors import UsageError
from rollouthub.text import plain_name
from rollouthub_tui.web.browser_tab import bounded, serve_session
from rollouthub_tui.web.guard import Guard
from rollouthub_tui.web.page import arrival, assets, page

HOST = "127.0.0.1"
MOST_SESSIONS = 8
_LARGEST_MESSAGE = 2**18
_HEARTBEAT_SECONDS = 15.0
_ENDING_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Serving:
    """The options of the server."""

    run: Path | None
    roots: tuple[Path, ...]
    environ: dict[str, str]
    port: int = 0
    opens: bool = False
    """Whether to open a browser."""

    @property
    def arguments(self) -> list[str]:
        """Command-line arguments of the `hub` process that each session runs."""
        roots = [word for root in self.roots for word in ("--root", str(root.absolute()))]
        return ["watch", *roots, *([] if self.run is None else ["--", str(self.run.absolute())])]


async def serve(serving: Serving) -> int:
    """Serve until Ctrl-C; returns the exit code."""
    async with served(serving) as rooms:
        guard = rooms.guard
        sys.stdout.write(
            f"hub watch is at {guard.address}\nEveryone who has the address can steer your runs. Ctrl-C ends it.\n"
        )
        sys.stdout.flush()
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        with _opened(guard, serving), anyio.open_signal_receiver(*signals) as told:
            async for _ in told:
                break
    return 0


@asynccontextmanager
async def served(serving: Serving) -> AsyncGenerator["Rooms"]:
    """The running server; it and its sessions end with the block.

    Raises:
        UsageError: the port is in use, or this user may not use it.
    """
    with closing(_listener(serving.port)) as listener:
        rooms = Rooms(serving, Guard(listener.getsockname()[1]))
        runner = web.AppRunner(rooms.application, access_log=None, shutdown_timeout=_ENDING_SECONDS)
        await runner.setup()
        try:
            await web.SockSite(runner, listener).start()
            yield rooms
        finally:
            with anyio.CancelScope(shield=True):
                await rooms.close()
                await runner.cleanup()


def _listener(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        reason = "another program has it" if error.errno == errno.EADDRINUSE else error.strerror
        raise UsageError(f"port {port} of {HOST} cannot be had: {reason}; say another with --port, or none") from error


class Rooms:
    """The server's pages and its open sessions."""

    def __init__(self, serving: Serving, guard: Guard) -> None:
        self._serving, self.guard, self._assets = serving, guard, assets()
        self._sockets: set[web.WebSocketResponse] = set()
        self.application = web.Application(middlewares=[guard.middleware()], client_max_size=1024)
        # Only what is known by name: no path that a browser says leads to a file.
        self.application.router.add_get(guard.place, self._page)
        self.application.router.add_get(f"{guard.place}ws", self._session)
        for name in self._assets:
            self.application.router.add_get(f"{guard.place}{name}", self._asset)

    @property
    def sessions(self) -> int:
        """The number of open sessions."""
        return len(self._sockets)

    async def close(self) -> None:
        """End all sessions."""
        for connection in list(self._sockets):
            with suppress(OSError):
                await connection.close(message=b"over")

    async def _page(self, request: web.Request) -> web.Response:
        if "token" in request.query:
            response = web.Response(text=arrival(self.guard.place), content_type="text/html")
            response.set_cookie(
                self.guard.cookie, self.guard.token, path=self.guard.place, httponly=True, samesite="Strict"
            )
            return response
        name = "hub watch" if self._serving.run is None else f"{plain_name(self._serving.run.name)} – hub watch"
        return web.Response(text=page(name, f"ws://{request.host}{self.guard.place}ws"), content_type="text/html")

    async def _asset(self, request: web.Request) -> web.Response:
        asset = self._assets[request.path.removeprefix(self.guard.place)]
        return web.Response(body=asset.body, content_type=asset.mime_type)

    async def _session(self, request: web.Request) -> web.StreamResponse:
        if len(self._sockets) >= MOST_SESSIONS:
            return web.Response(status=503, text=f"{MOST_SESSIONS} sessions are open, which is all there may be\n")
        connection = web.WebSocketResponse(heartbeat=_HEARTBEAT_SECONDS, max_msg_size=_LARGEST_MESSAGE)
        self._sockets.add(connection)
        try:
            await connection.prepare(request)
            size = bounded(request.query.get("width"), 80), bounded(request.query.get("height"), 24)
            await serve_session(connection, self._serving.arguments, self._serving.environ, size)
        finally:
            self._sockets.discard(connection)
        return connection


@contextmanager
def _opened(guard: Guard, serving: Serving) -> Generator[None]:
    """Open a browser at a local file that redirects to the address: every user could read the token in a command
    line.
    """
    environ = serving.environ
    if not serving.opens or not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="hub-watch-") as folder:
        file = Path(folder) / "open.html"
        file.write_text(arrival(guard.address))
        webbrowser.open(file.as_uri())
        yield
