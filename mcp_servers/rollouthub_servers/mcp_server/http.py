"""MCP over Streamable HTTP to a server that runs already, bounded in what it may answer."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client

from rollouthub_servers.mcp_server.wire import MESSAGE_BYTES

_CONNECT_SECONDS = 10.0


class _Bounded(httpx2.AsyncByteStream):
    """A response's body, as long as it is not too long."""

    def __init__(self, body: httpx2.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > MESSAGE_BYTES:
                raise httpx2.ReadError(f"the server's answer is longer than {MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """The SDK reads bodies whole, of whatever length; this bounds them."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        response.stream = _Bounded(cast(httpx2.AsyncByteStream, response.stream))
        return response


@asynccontextmanager
async def streamable_http(url: str, token: str | None) -> AsyncGenerator[Any]:
    """Hold a line to a running server; the streams a session wants."""
    # No compression: a small body that unpacks to a huge one would pass the bound.
    headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {token}"} if token else {})
    timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)  # calls have deadlines of their own
    # Reading the machine's certificates costs 20 ms, and a plain http:// needs none.
    transport = _BoundedTransport(verify=url.startswith("https:"))
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, transport=transport) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MESSAGE_BYTES) as streams,
    ):
        yield streams
