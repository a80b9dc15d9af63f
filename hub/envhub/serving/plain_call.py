"""A plain tool call of the sessionless era, answered without most of the MCP SDK: nearly all that agents ask.

The SDK spends three times what the call itself costs on sessions, contexts and streams that such a request has no use
for. Taken here is only what can be answered at once, by the SDK's own checks and in its own bytes; everything else,
every refusal among it, stays the SDK's.
"""

import json
from collections.abc import Iterable, MutableMapping
from typing import Any

from mcp.shared.inbound import decode_header_value
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    CallToolResult,
    JSONRPCRequest,
    RequestId,
)
from mcp_types.methods import serialize_server_result, validate_client_request

from envhub.serving.episode import ServedSeat
from envhub.serving.http import JSON, Receive, Scope, Send, answer
from envhub.serving.mcp_server import MADE, SESSION_HEADER, EnvironmentServer, make_call

_VERSION, _METHOD = "2026-07-28", "tools/call"
_SESSION = SESSION_HEADER.encode()
_PARAMS = {"name", "arguments", "_meta"}
_META = {PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY}
"""No `progressToken` among them: who sends one may want events."""


class PlainCalls:
    """The plain calls of one environment's tools."""

    def __init__(self, server: EnvironmentServer, hosts: Iterable[str], most_bytes: int) -> None:
        """`hosts` may be named by a request, with any port where they end in `:*`."""
        self._server, self._most_bytes = server, most_bytes
        self._hosts = frozenset(host.encode() for host in hosts)
        self._with_port = tuple(host[:-1] for host in self._hosts if host.endswith(b":*"))
        self._stamp = {"_meta": {SERVER_INFO_META_KEY: server.server_info_stamp}}

    async def serve(self, seat: ServedSeat, scope: Scope, receive: Receive, send: Send) -> Receive | None:
        """Answer a plain call; for any other request, what the SDK is to read it from."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not self._is_plain(scope, headers):
            return receive
        message = await receive()
        request = None if message.get("more_body", False) else self._read(headers, message.get("body", b""))
        body = None if request is None else await self._make(request, seat, scope)
        if body is None:
            return _again(message, receive)
        await answer(send, 200, body)
        return None

    def _is_plain(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Whether the headers announce a plain call, each of them said once."""
        length, host = headers.get(b"content-length", b""), headers.get(b"host", b"")
        return (
            headers.get(b"mcp-method") == _METHOD.encode()
            and headers.get(b"mcp-protocol-version") == _VERSION.encode()
            and scope["method"] == "POST"
            and len(headers) == len(scope["headers"])
            and b"mcp-name" in headers
            and _SESSION not in headers
            and b"origin" not in headers
            and (host in self._hosts or host.startswith(self._with_port))
            and length.isdigit()
            and int(length) <= self._most_bytes
            and headers.get(b"content-type", b"").lower().startswith(JSON)
            and any(kind.partition(b";")[0].strip().lower() == JSON for kind in headers.get(b"accept", b"").split(b","))
        )

    def _read(self, headers: dict[bytes, bytes], body: bytes) -> JSONRPCRequest | None:
        """The request, if it is whole, agrees with its headers, and asks for nothing but the call."""
        try:
            request = JSONRPCRequest.model_validate(json.loads(body))
            validate_client_request(_METHOD, _VERSION, request.params)
        except (ValueError, RecursionError):
            return None
        params = request.params or {}
        name, meta = params["name"], params["_meta"]
        is_plain = (
            request.method == _METHOD
            and meta[PROTOCOL_VERSION_META_KEY] == _VERSION
            and decode_header_value(headers[b"mcp-name"].decode("latin-1")) == name
            and params.keys() <= _PARAMS
            and meta.keys() <= _META
            # A tool may want arguments repeated in headers, which the SDK compares.
            and name not in self._server.header_schemas
        )
        return request if is_plain else None

    async def _make(self, request: JSONRPCRequest, seat: ServedSeat, scope: Scope) -> bytes | None:
        """Make the call; None where the SDK is to say what came of it, which the scope holds then."""
        params = request.params or {}
        arguments: dict[str, Any] = params.get("arguments") or {}
        try:
            made = await make_call(seat, scope, (None, str(request.id)), params["name"], arguments)
        except Exception as error:
            scope[MADE] = error
            return None
        try:
            return self._written(request.id, made)
        except Exception:
            scope[MADE] = made
            return None

    def _written(self, request_id: RequestId, result: CallToolResult) -> bytes:
        """The response, as the SDK would write it.

        Raises:
            Exception: the result is not of the usual kind.
        """
        if result.meta is not None or result.result_type != "complete":
            raise ValueError("a result that says more than a tool's does")
        dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        wire = serialize_server_result(_METHOD, _VERSION, dumped) | self._stamp
        return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": wire}, separators=(",", ":")).encode()


def _again(message: MutableMapping[str, Any], receive: Receive) -> Receive:
    """What gives a message that was read already, and then what follows."""
    messages = [message]

    async def replay() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()

    return replay
