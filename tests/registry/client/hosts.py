"""Hosts that a client meets: a plain file server, and servers that say whatever a test wants them to."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Host:
    """A server on a free port, and what it was asked."""

    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Method and path of each request."""
    tokens: list[str] = field(default_factory=list[str])
    """What came as Authorization."""


@asynccontextmanager
async def host(handler: Handler) -> AsyncGenerator[Host]:
    """Answer every request by one function."""
    up = Host()

    async def answer(request: web.Request) -> web.StreamResponse:
        up.asked.append((request.method, request.path))
        if "Authorization" in request.headers:
            up.tokens.append(request.headers["Authorization"])
        return await handler(request)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        up.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield up
    finally:
        await runner.cleanup()


def files_of(folder: Path) -> Handler:
    """What any file server does."""

    async def answer(request: web.Request) -> web.StreamResponse:
        file = folder / request.path.removeprefix("/")
        return web.FileResponse(file) if file.is_file() else web.Response(status=404, text="<h1>Not Found</h1>")

    return answer


def registry_that(says: Handler) -> Handler:
    """What looks like a registry until it is asked for something."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/registry.json":
            return web.json_response({"format": 1, "api": "/envhub/v1"})
        return await says(request)

    return answer
