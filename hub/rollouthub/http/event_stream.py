"""A response that is plain JSON, or becomes a stream of server-sent events once a message must be sent before it.

A client that asks for progress thus gets events, and every other client a plain body, from the same server.
The protocol: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports.
"""

from collections.abc import MutableMapping
from typing import Any

import anyio

from rollouthub.http.asgi import Scope, Send, header

STREAM = "rollouthub.stream"
"""Key of a request's scope under which its `EventStream` is stored."""
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class EventStream:
    """The ASGI `send` of one request, which can send messages before the response."""

    __slots__ = ("_body", "_is_answered", "_saying", "_send")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._body: list[bytes] = []
        self._is_answered = False
        self._saying: anyio.Lock | None = None
        """Serialises sending, from the first message on; None before any message was sent."""

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        """Send the response, or a part of it."""
        self._is_answered = True
        if self._saying is None:
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._body.append(message.get("body", b""))
            if not message.get("more_body", False):
                async with self._saying:  # what is being said is said to its end
                    await self._send(_chunk(_event(b"".join(self._body)), is_last=True))

    async def say(self, message: bytes) -> None:
        """Send a JSON-RPC message before the response; once the response has begun, the message is dropped."""
        if self._is_answered:
            return
        is_first = self._saying is None
        self._saying = self._saying or anyio.Lock(fast_acquire=True)
        async with self._saying:
            if is_first:
                await self._send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send(_chunk(_event(message)))


def takes_events(scope: Scope) -> bool:
    """Whether the client accepts a response as server-sent events."""
    return b"text/event-stream" in (header(scope, b"accept") or b"").lower()


def _event(message: bytes) -> bytes:
    # JSON escapes what would end the line.
    return b"event: message\ndata: " + message + b"\n\n"


def _chunk(body: bytes, *, is_last: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": not is_last}
