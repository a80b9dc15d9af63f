"""A server of the contract written without the hub's own, which can be told to misbehave."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import web

from rollouthub.hosting.client.remote_host import RemoteHost
from rollouthub.hosting.client.server_connection import ServerConnection, connect
from rollouthub.protocols import EnvironmentInfo

TOKEN = "control-token-of-the-stub"
TOOL: dict[str, Any] = {"name": "look", "description": "Look.", "inputSchema": {"type": "object", "properties": {}}}
PUBLIC = {"id": "t/1", "prompt": "?", "more": 1}
INFO: dict[str, Any] = {
    "name": "stub",
    "version": "1",
    "digest": "sha256:0",
    "contract": 1,
    "splits": ["test"],
    "seats": ["agent"],
    "tools": [TOOL],
    "tools_digest": "sha256:tools",
    "limits": {},
    "isolation": "process",
    "scores_transcripts": True,
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Stub:
    """One environment of one task; `misbehave[step]` takes a step's place, as often as `times` says."""

    def __init__(self) -> None:
        self.misbehave: Mapping[str, Handler] = {}
        self.times = 1_000_000
        self.seen: list[str] = []
        self.suspected = 0
        self.info = INFO
        self.groups: list[Any] = []
        self.url = ""
        self._connection: ServerConnection | None = None
        self._runner: web.AppRunner | None = None

    async def connection(self) -> ServerConnection:
        """Always the same: it is never started again."""
        assert self._connection is not None
        return self._connection

    def suspect(self) -> None:
        """Count who met it gone, silent or talking nonsense."""
        self.suspected += 1

    async def leave(self) -> None:
        """Be gone."""
        assert self._runner is not None
        await self._runner.cleanup()

    def host(self) -> RemoteHost:
        """Its client."""
        return RemoteHost(EnvironmentInfo.model_validate(self.info), self)

    def judge(self, body: Any) -> Any:
        """The verdict on a group; `groups` keeps what was asked."""
        self.groups.append(body)
        return {"scores": [{"reward": 1.0} for _ in body["group"]["members"]]}

    def _step(self, name: str, answer: Callable[[Any], Any]) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.seen.append(name)
            body = await request.read()
            if name in self.misbehave and self.times > 0:
                self.times -= 1
                return await self.misbehave[name](request)
            if name != "tool" and request.headers.get("Authorization") != f"Bearer {TOKEN}":
                return web.json_response({"error": {"type": "CredentialError", "message": "no"}}, status=401)
            return web.json_response(answer(json.loads(body) if body else None))

        return handle

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok"})

    def application(self) -> web.Application:
        """Both planes on one listener: enough for the client."""
        status = {"id": "e1", "state": "sealed"}
        app = web.Application()
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/environment", self._step("environment", lambda _: self.info))
        app.router.add_get(
            "/v1/tasks",
            self._step(
                "tasks",
                lambda _: {
                    "cards": [{"split": "test", "digest": "d", "public": {"id": "t/1", "prompt": "?", "more": 1}}]
                },
            ),
        )
        seat = {"name": "agent", "token": "t", "tools": ["look"], "messages": [{"role": "user", "content": "?"}]}
        app.router.add_post(
            "/v1/episodes",
            self._step(
                "open",
                lambda _: {
                    "id": "e1",
                    "seats": [{**seat, "url": f"{self.url}/e/t/mcp"}],
                    "seed": 0,
                    "tools_digest": "sha256:tools",
                    "expires_at": 0,
                },
            ),
        )
        app.router.add_get("/v1/episodes/e1/doors", self._step("doors", lambda _: {}))
        app.router.add_get("/v1/episodes/e1/media/{digest}", self._step("media", no_such_route))
        app.router.add_post("/v1/episodes/e1/seal", self._step("seal", lambda _: status))
        app.router.add_post(
            "/v1/episodes/e1/verify", self._step("verify", lambda _: {"score": {"reward": 1.0}, "status": status})
        )
        app.router.add_delete("/v1/episodes/e1", self._step("close", lambda _: {**status, "state": "closed"}))
        app.router.add_post("/v1/verify", self._step("batch", lambda _: {"verdicts": [{"score": {"reward": 0.5}}]}))
        app.router.add_post("/v1/score_group", self._step("group", self.judge))
        app.router.add_post(
            "/e/t/mcp",
            self._step(
                "tool",
                lambda body: {
                    "jsonrpc": "2.0",
                    "id": body["id"],
                    "result": {"content": [{"type": "text", "text": "a wall"}], "resultType": "complete"},
                },
            ),
        )
        return app


def no_such_route(body: object) -> object:
    """What servers say that lack a route."""
    raise web.HTTPNotFound


@asynccontextmanager
async def stub_server(grace_seconds: float = 0.2) -> AsyncGenerator[Stub]:
    """A stub on a free port."""
    stub = Stub()
    runner = web.AppRunner(stub.application(), access_log=None, shutdown_timeout=0.1)
    stub._runner = runner  # pyright: ignore[reportPrivateUsage]
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with connect(stub.url, TOKEN, grace_seconds, stub.suspect) as connection:
            stub._connection = connection  # pyright: ignore[reportPrivateUsage]
            yield stub
    finally:
        with anyio.CancelScope(shield=True):
            await runner.cleanup()


async def garbage(request: web.Request) -> web.StreamResponse:
    """Words that are no JSON."""
    return web.Response(text="<html>it works!</html>")


async def another_shape(request: web.Request) -> web.StreamResponse:
    """JSON of another shape."""
    return web.json_response({"jsonrpc": "2.0", "result": ["what", "is", "this"], "id": 1})


async def silence(request: web.Request) -> web.StreamResponse:
    """No answer, ever."""
    await anyio.sleep_forever()
    raise AssertionError


async def hang_up(request: web.Request) -> web.StreamResponse:
    """The connection is cut in the middle."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def flood(request: web.Request) -> web.StreamResponse:
    """More than anybody asked for, without an end."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" " * 2**20)


async def broken(request: web.Request) -> web.StreamResponse:
    """A web server's own error page."""
    return web.Response(status=500, text="Internal Server Error")
