"""A plain tool call of the sessionless era, answered without the MCP SDK: nearly all that agents ask.

The SDK spends more than the call itself on contexts, streams and models that such a request has no use for. Taken here
is only what is understood whole and can be answered at once; everything else, every refusal too, stays the SDK's.
"""

from collections.abc import Iterable, MutableMapping
from functools import lru_cache
from typing import Any, Literal

import msgspec
from mcp.shared.inbound import decode_header_value
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    CallToolResult,
    ContentBlock,
    TextContent,
)
from mcp_types.methods import serialize_server_result, validate_client_request
from pydantic_core import to_json

from rollouthub.hosting.server.mcp_server import MADE, SESSION_HEADER, EnvironmentServer, make_call
from rollouthub.hosting.server.served_episode import ServedSeat
from rollouthub.http.asgi import JSON, Receive, Scope, Send, answer

_VERSION = "2026-07-28"
_CALL = "tools/call"
_SESSION = SESSION_HEADER.encode()
_META = {PROTOCOL_VERSION_META_KEY, CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY}
"""No `progressToken` among them: who sends one may want events."""
_LONGEST_META = 4096


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    meta: msgspec.Raw = msgspec.field(name="_meta")
    arguments: dict[str, Any] | None = None


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    """What the SDK's own models cost is most of what they would check."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _Params


_decode = msgspec.json.Decoder(_Request).decode


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
            headers.get(b"mcp-method") == b"tools/call"
            and headers.get(b"mcp-protocol-version") == b"2026-07-28"
            and scope["method"] == "POST"
            and len(headers) == len(scope["headers"])
            and b"mcp-name" in headers
            and _SESSION not in headers
            and b"origin" not in headers
            and (host in self._hosts or host.startswith(self._with_port))
            and length.isdigit()
            and int(length) <= self._most_bytes
            and headers.get(b"content-type", b"").lower().startswith(JSON)
            and _takes_json(headers.get(b"accept", b""))
        )

    def _read(self, headers: dict[bytes, bytes], body: bytes) -> _Request | None:
        """The request, if it is whole, agrees with its headers, and asks for nothing but the call."""
        try:
            request = _decode(body)
        except (ValueError, RecursionError):
            return None
        name, meta = request.params.name, bytes(request.params.meta)
        is_plain = (
            decode_header_value(headers[b"mcp-name"].decode("latin-1")) == name
            and len(meta) <= _LONGEST_META
            and _is_plain_meta(meta)
            # A tool may want arguments repeated in headers, which the SDK compares.
            and name not in self._server.header_schemas
        )
        return request if is_plain else None

    async def _make(self, request: _Request, seat: ServedSeat, scope: Scope) -> bytes | None:
        """Make the call; None where the SDK is to say what came of it, which the scope holds then."""
        params = request.params
        try:
            made = await make_call(seat, scope, (None, str(request.id)), params.name, params.arguments or {})
        except Exception as error:
            scope[MADE] = error
            return None
        try:
            return self._written(request.id, made)
        except Exception:
            scope[MADE] = made
            return None

    def _written(self, request_id: int | str, result: CallToolResult) -> bytes:
        """The response, as the SDK would write it.

        Raises:
            Exception: the result is not of the usual kind.
        """
        if result.meta is not None or result.result_type != "complete":
            raise ValueError("a result that says more than a tool's does")
        words = [_words(block) for block in result.content]
        if result.structured_content is None and None not in words:
            wire: dict[str, Any] = {"content": words, "isError": result.is_error, "resultType": "complete"}
        else:
            dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            wire = serialize_server_result(_CALL, _VERSION, dumped)
        return to_json({"jsonrpc": "2.0", "id": request_id, "result": wire | self._stamp})


@lru_cache(maxsize=256)
def _is_plain_meta(raw: bytes) -> bool:
    """Whether a request's `_meta` says who asks, rightly, and no more; a client says the same each time."""
    try:
        meta = msgspec.json.decode(raw, type=dict[str, Any])
        validate_client_request(_CALL, _VERSION, {"name": "", "_meta": meta})
    except (ValueError, RecursionError):
        return False
    return meta.keys() <= _META and meta[PROTOCOL_VERSION_META_KEY] == _VERSION


def _takes_json(accept: bytes) -> bool:
    """Whether an `Accept` header names JSON; most begin with it."""
    return accept.startswith(b"application/json,") or any(
        kind.partition(b";")[0].strip().lower() == JSON for kind in accept.split(b",")
    )


def _words(block: ContentBlock) -> dict[str, str] | None:
    """A block that is nothing but text, as the wire has it; most are."""
    if type(block) is not TextContent or block.annotations is not None or block.meta is not None:
        return None
    return {"text": block.text, "type": "text"}


def _again(message: MutableMapping[str, Any], receive: Receive) -> Receive:
    """What gives a message that was read already, and then what follows."""
    messages = [message]

    async def replay() -> MutableMapping[str, Any]:
        return messages.pop() if messages else await receive()

    return replay
