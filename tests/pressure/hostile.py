"""A model server that misbehaves on command: a real one, over HTTP on the loopback."""

import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from aiohttp import web
from aiohttp.typedefs import Handler

from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import ModelServer

Mood = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]


class HostileServer:
    """Plays `mock/solver` as `served`, in whatever mood it is."""

    def __init__(self, latency_seconds: float = 0.02) -> None:
        self.latency_seconds = latency_seconds
        self.mood: Mood = well
        self.asked = 0
        self.in_flight = self.most_in_flight = 0
        self.times: list[float] = []
        """When calls came in."""
        self._port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Its base URL, whether it is up or not."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def rise(self) -> None:
        """Listen, at the same port as before."""
        server = ModelServer(MockModel(ModelConfig(name="mock/solver")), ["served"])
        app = server.application()
        app.middlewares.append(self._meet)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def die(self) -> None:
        """Stop listening, and break off every call."""
        if self._runner is None:
            return
        runner, self._runner = self._runner, None
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            for site in tuple(runner.sites):
                await site.stop()
            assert runner.server is not None
            # A connection may be on its way in when the door closes.
            for _ in range(10):
                for connection in list(runner.server.connections):
                    if connection.transport is not None:
                        connection.transport.abort()
                await anyio.sleep(0.01)
            await runner.cleanup()

    @web.middleware
    async def _meet(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if not request.path.endswith("/chat/completions"):
            return await handler(request)
        self.asked += 1
        self.times.append(time.monotonic())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.mood is not refuses_all and self.latency_seconds:
                await anyio.sleep(self.latency_seconds)
            return await self.mood(request, handler)
        finally:
            self.in_flight -= 1


@asynccontextmanager
async def hostile_server(latency_seconds: float = 0.02) -> AsyncGenerator[HostileServer]:
    """A server that is up, and well to begin with."""
    server = HostileServer(latency_seconds)
    await server.rise()
    try:
        yield server
    finally:
        await server.die()


async def well(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers."""
    return await handler(request)


def fails(share: float, seed: int = 0) -> Mood:
    """Breaks so many calls: an HTTP 500, a connection reset, or half of the answer's JSON, in turn."""
    draw = random.Random(seed)
    turn = 0

    async def mood(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal turn
        if draw.random() >= share:
            return await handler(request)
        turn += 1
        if turn % 3 == 0:
            return web.json_response({"error": {"message": "boom"}}, status=500)
        if turn % 3 == 1:
            return _abort(request)
        whole = await handler(request)
        assert isinstance(whole, web.Response)
        assert isinstance(whole.body, bytes)
        return web.Response(body=whole.body[: len(whole.body) // 2], content_type="application/json")

    return mood


async def refuses_all(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One long storm, at once, and without a word of when to come again."""
    return refusal()


def refuses(after_seconds: float | None = None, above: Callable[[], bool] = lambda: True) -> Mood:
    """Answers 429 while `above` says so."""

    async def mood(request: web.Request, handler: Handler) -> web.StreamResponse:
        return refusal(after_seconds) if above() else await handler(request)

    return mood


def refusal(after_seconds: float | None = None) -> web.Response:
    """HTTP 429."""
    headers = None if after_seconds is None else {"Retry-After": f"{after_seconds:g}"}
    return web.json_response({"error": {"message": "too many"}}, status=429, headers=headers)


async def hangs(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Takes the call, and never says anything."""
    await anyio.sleep_forever()
    raise AssertionError


def slow(seconds: float) -> Mood:
    """Answers so much later."""

    async def mood(request: web.Request, handler: Handler) -> web.StreamResponse:
        await anyio.sleep(seconds)
        return await handler(request)

    return mood


def _abort(request: web.Request) -> web.StreamResponse:
    """A connection reset; the answer goes nowhere."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
