"""MCP as raw requests, in both eras: sessionless (2026-07-28), and with a handshake (up to 2025-11-25)."""

import json
from collections.abc import Mapping
from typing import Any

from rollouthub_registry.check.thorough.raw_exchange import RawExchange
from rollouthub_registry.check.thorough.raw_http import ANSWER_SECONDS, Wire

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
ACCEPT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "hub-check", "version": "1"},
}


def modern_request(method: str, params: Mapping[str, Any] | None = None) -> tuple[bytes, dict[str, str]]:
    """The body and headers of a sessionless request."""
    given = dict(params or {})
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**given, "_meta": META}}
    headers = {**ACCEPT, "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    name = given.get("name", given.get("uri"))
    if isinstance(name, str) and name.isascii() and name.isprintable() and len(name) < 200:
        headers["Mcp-Name"] = name
    return json.dumps(body).encode(), headers


async def modern(
    wire: Wire,
    where: str,
    url: str,
    method: str,
    params: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    seconds: float = ANSWER_SECONDS,
) -> RawExchange:
    """Make one sessionless request."""
    body, own = modern_request(method, params)
    return await wire.send(where, "POST", url, body, {**own, **(headers or {})}, seconds=seconds)


async def call(
    wire: Wire, where: str, url: str, name: str, arguments: Any, *, seconds: float = ANSWER_SECONDS
) -> RawExchange:
    """Make a sessionless tool call."""
    params = {"name": name, "arguments": arguments}
    return await modern(wire, where, url, "tools/call", params, seconds=seconds)


class Session:
    """A session that was opened with a handshake."""

    def __init__(self, wire: Wire, where: str, url: str, version: str = LEGACY[0]) -> None:
        self.wire, self.where, self.url, self.version = wire, where, url, version
        self.headers: dict[str, str] = {}

    async def begin(self, headers: Mapping[str, str] | None = None) -> RawExchange:
        """Open the session: `initialize` and its notification."""
        greeting = {
            "protocolVersion": self.version,
            "capabilities": {},
            "clientInfo": {"name": "hub-check", "version": "1"},
        }
        self.headers |= headers or {}
        answer = await self.ask("initialize", greeting)
        session = answer.headers.get("mcp-session-id")
        if session is not None:
            self.headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": self.version}
        await self.tell("notifications/initialized")
        return answer

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> RawExchange:
        """Send a request and read its answer."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params or {})}
        where = f"{method} {self.where}"
        return await self.wire.send(where, "POST", self.url, json.dumps(body).encode(), {**ACCEPT, **self.headers})

    async def tell(self, method: str, params: Mapping[str, Any] | None = None) -> RawExchange:
        """Send a notification."""
        body = {"jsonrpc": "2.0", "method": method, "params": dict(params or {})}
        where = f"{method} {self.where}"
        return await self.wire.send(where, "POST", self.url, json.dumps(body).encode(), {**ACCEPT, **self.headers})

    async def call(self, name: str, arguments: Any) -> RawExchange:
        """Call a tool."""
        return await self.ask("tools/call", {"name": name, "arguments": arguments})

    async def end(self) -> RawExchange:
        """Close the session."""
        return await self.wire.send(f"DELETE {self.where}", "DELETE", self.url, None, {**ACCEPT, **self.headers})
