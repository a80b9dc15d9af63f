"""Hosts that a client meets: a plain file server, and servers that say whatever a test wants them to."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from rollouthub_registry.client.http_client import PATIENCE, Patience
from rollouthub_registry.client.source import Source, open_source
from rollouthub_registry.names import PackageName, Release
from tests.local_server import serving

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Use = Callable[[Source], Awaitable[Any]]
DICE, RELEASE, TOKEN = PackageName.parse("lab/dice"), Release.parse("lab/dice@1.2.0"), "rollouthub_geheim"
HURRIED = Patience(answer_seconds=0.3, slowest_bytes_per_second=1e6, examining_seconds=0.3)


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
    async with serving(application) as up.url:
        yield up


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


async def offers(source: Source) -> Any:
    """Ask for the versions of the dice."""
    return await source.offers(DICE)


async def find(source: Source) -> Any:
    """Search."""
    return await source.search("dice")


async def state(source: Source) -> Any:
    """Ask what was signed."""
    return await source.statement(RELEASE)


async def yank(source: Source) -> Any:
    """Change something."""
    return await source.yank(RELEASE, "why")


@asynccontextmanager
async def hostile(says: Handler, patience: Patience = PATIENCE) -> AsyncGenerator[tuple[Source, Host]]:
    """A registry that says whatever it wants to somebody who has a token for it."""
    async with host(registry_that(says)) as up, open_source(up.url, TOKEN, patience) as source:
        yield source, up


def says(content: Any) -> Handler:
    """Always the same JSON."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(content)

    return answer


def knows_the_token(then: Handler) -> Handler:
    """Knows every token, and does what it wants with what is sent."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/envhub/v1/token":
            return web.json_response({"id": "1", "namespace": "*", "scopes": ["publish"], "more": "of a later server"})
        return await then(request)

    return answer
