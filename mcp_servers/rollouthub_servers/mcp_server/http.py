"""MCP over Streamable HTTP to a running server, with bounded answers."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from rollouthub.event_loop import MOST_VALUES, is_crowded_message
from rollouthub_servers.mcp_server.line_state import MESSAGE_BYTES
from rollouthub_servers.mcp_server.oversized_answers import data_of, end_of_events, error_instead, events_of

_CONNECT_SECONDS = 10.0


class _Bounded(httpx2.AsyncByteStream):
    """A response body with a limit on its length and on the number of values in a message."""

    def __init__(self, body: httpx2.AsyncByteStream, *, is_stream: bool) -> None:
        self._body, self._is_stream = body, is_stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        buffer, scanned = bytearray(), 0
        async for chunk in self._chunks():
            buffer += chunk
            end = end_of_events(buffer, scanned) if self._is_stream else 0
            whole = bytes(buffer[:end])
            del buffer[:end]
            scanned = len(buffer)
            if whole:
                yield await _events_read(whole)
        if buffer:
            rest = bytes(buffer)
            yield await _events_read(rest) if self._is_stream else await _message_read(rest)

    async def _chunks(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > MESSAGE_BYTES:
                raise httpx2.ReadError(f"the server's answer is longer than {MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """An HTTP transport with bounded bodies, because the SDK reads bodies of any length."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        kind = response.headers.get("content-type", "")
        body = cast(httpx2.AsyncByteStream, response.stream)
        response.stream = _Bounded(body, is_stream=kind.startswith("text/event-stream"))
        return response


async def _message_read(body: bytes) -> bytes:
    """The message, or an error in its place if it has too many values."""
    if not await is_crowded_message(body):
        return body
    try:
        error = error_instead(body)
    except ValueError:
        error = None
    if error is None:
        raise httpx2.ReadError(f"the server's answer holds more than {MOST_VALUES:,} values, and answers nothing")
    return error.model_dump_json(by_alias=True).encode()


async def _events_read(events: bytes) -> bytes:
    """The server-sent events, with errors in place of messages that have too many values."""
    if not await is_crowded_message(events):
        return events
    kept: list[bytes] = []
    for event in events_of(events):
        data = data_of(event)
        read = await _message_read(data)
        kept.append(event if read is data else b"data: " + read)
    return b"\n\n".join(kept)


def _client(url: str, headers: Mapping[str, str], socket: str | None) -> httpx2.AsyncClient:
    # No compression: a small body that unpacks to a huge one would pass the bound.
    headers = {"Accept-Encoding": "identity", **headers}
    timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)  # calls have deadlines of their own
    # Reading the machine's certificates costs 20 ms, and a plain http:// needs none.
    transport = _BoundedTransport(verify=url.startswith("https:"), uds=socket)
    return httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport)


@asynccontextmanager
async def streamable_http(
    url: str, token: str | None, headers: Mapping[str, str] | None = None, socket: str | None = None
) -> AsyncGenerator[Any]:
    """Connect to a running server, through a Unix socket if one is named; yields the streams for a session."""
    given = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    async with (
        _client(url, given, socket) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MESSAGE_BYTES) as streams,
    ):
        yield streams


@asynccontextmanager
async def http_with_sse(url: str, headers: Mapping[str, str], socket: str) -> AsyncGenerator[Any]:
    """Connect to a running server of the older HTTP transport, through a Unix socket; yields a session's streams."""

    def client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
        return _client(url, headers or {}, socket)

    async with sse_client(url, headers=dict(headers), httpx_client_factory=client) as streams:
        yield streams
