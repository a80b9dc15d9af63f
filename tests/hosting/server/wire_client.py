"""A served world, and raw HTTP at both its planes: what a client of the wire sees, byte by byte."""

import io
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
from mcp import Client
from mcp_types import TextContent

from rollouthub.environment import AnyEnvironment
from rollouthub.hosting.control_wire import OpenedEpisode, OpenedSeat
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.hosting.server.serve import Service, Serving, serving_host
from tests.hosting.local.worlds import host_of

TOKEN = "control-canary-51d0c7e2"
"""The control plane's credential."""
MODERN, LEGACY = "2026-07-28", "2025-11-25"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
Params = dict[str, Any] | None
Headers = dict[str, str] | None
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@dataclass
class Answer:
    """An HTTP response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, which must be JSON."""
        return json.loads(self.body)

    @property
    def problem(self) -> tuple[str, str]:
        """Of the control plane's refusal: type and message."""
        error = self.json["error"]
        return error["type"], error["message"]

    @property
    def text(self) -> str:
        """The words of a tool result."""
        return "\n".join(block["text"] for block in self.json["result"]["content"])

    @property
    def is_error(self) -> bool:
        """Whether a tool result is an error."""
        return self.json["result"]["isError"]


class WireClient:
    """An HTTP client at both planes of a served world."""

    def __init__(self, serving: Serving, http: aiohttp.ClientSession) -> None:
        self.serving, self.http = serving, http
        self.control_url, self.agent_url = serving.ready.control_url, serving.ready.agent_url

    async def send(self, method: str, url: str, data: bytes | None = None, headers: Headers = None) -> Answer:
        """One request."""
        body = None if data is None else io.BytesIO(data)
        async with self.http.request(method, url, data=body, headers=headers) as response:
            known = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, known, await response.read())

    async def control(self, method: str, path: str, body: object = None, token: str | None = TOKEN) -> Answer:
        """One call of the control plane."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.send(method, self.control_url + path, data, headers)

    async def open(self, **more: object) -> OpenedEpisode:
        """Open an episode of the world's one task."""
        answer = await self.control("POST", "/v1/episodes", {"task": {"id": "one", "split": "test"}, **more})
        assert answer.status == 200, answer
        return OpenedEpisode.model_validate_json(answer.body)

    async def seat(self, **more: object) -> OpenedSeat:
        """The first seat of a fresh episode."""
        return (await self.open(**more)).seats[0]

    def episode(self, episode_id: str) -> HostedEpisode:
        """What is behind an episode, to look at what no client sees."""
        episode = self.serving.episodes.find(episode_id).episode
        assert isinstance(episode, HostedEpisode)
        return episode

    async def modern(self, url: str, method: str, params: Params = None, headers: Headers = None) -> Answer:
        """A request of the sessionless era."""
        params = params or {}
        name = {"Mcp-Name": params["name"]} if "name" in params else {}
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
        routing = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **name}
        return await self.send("POST", url, json.dumps(body).encode(), {**ACCEPT, **routing, **(headers or {})})

    async def call(self, url: str, name: str, /, **arguments: object) -> Answer:
        """A tool call of the sessionless era."""
        return await self.modern(url, "tools/call", {"name": name, "arguments": arguments})

    async def begin(self, url: str, headers: Headers = None) -> "Session":
        """A legacy session."""
        session = Session(self, url, dict(headers or {}))
        greeting = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        answer = await session.ask("initialize", greeting)
        assert answer.status == 200, answer
        session.greeting = answer.json["result"]
        session.headers |= {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": LEGACY}
        assert (await session.tell("notifications/initialized")).status == 202
        return session


class Session:
    """A legacy session, spoken by hand."""

    def __init__(self, wire: WireClient, url: str, headers: dict[str, str]) -> None:
        self.wire, self.url, self.headers = wire, url, headers
        self.greeting: dict[str, Any] = {}
        self._count = 0

    async def tell(self, method: str, params: Params = None) -> Answer:
        """Send a notification."""
        body = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        return await self.wire.send("POST", self.url, json.dumps(body).encode(), ACCEPT | self.headers)

    async def ask(self, method: str, params: Params = None) -> Answer:
        """Send a request; their ids count from 1."""
        self._count += 1
        body = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params or {}}
        return await self.wire.send("POST", self.url, json.dumps(body).encode(), ACCEPT | self.headers)

    async def end(self) -> Answer:
        """Delete the session."""
        return await self.wire.send("DELETE", self.url, headers=ACCEPT | self.headers)

    async def call(self, name: str, /, **arguments: object) -> Answer:
        """Call a tool."""
        return await self.ask("tools/call", {"name": name, "arguments": arguments})


@asynccontextmanager
async def served(
    environment: AnyEnvironment,
    *,
    ttl_seconds: float = 3600.0,
    control: str = "127.0.0.1:0",
    seconds: float = 60.0,
    **config: Any,
) -> AsyncGenerator[WireClient]:
    """A world served on loopback, with a minute for everything: programs start in it, on a busy machine."""
    service = Service(environment="world", control_token=TOKEN, ttl_seconds=ttl_seconds, control=control)
    with anyio.fail_after(seconds):
        async with serving_host(host_of(environment, **config), service) as serving:
            connector = aiohttp.TCPConnector(limit=0)
            if control.startswith("unix:"):
                connector = aiohttp.UnixConnector(control.removeprefix("unix:"))
            async with aiohttp.ClientSession(connector=connector) as http:
                yield WireClient(serving, http)


def said(result: Any) -> str:
    """The words of a tool result as the SDK's client gives it."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def client(url: str, era: str) -> Client:
    """The SDK's own client in one of the eras."""
    return Client(url, mode="legacy") if era == "legacy" else Client(url, mode="auto")
