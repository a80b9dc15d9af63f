"""Bodies of httpx's responses, unpacked by the hub in small pieces and bounded while they are read.

httpx unpacks whatever came at once: some kilobytes that an endpoint packed twice become gigabytes.
"""

from collections.abc import AsyncIterator, Iterator

import anyio.lowlevel
import httpx

from rollouthub.http.exchange import MAX_ANSWER_BYTES
from rollouthub.http.inflater import ENCODINGS, Inflater
from rollouthub.http.no_answer import BrokenExchange
from rollouthub.models.direct.http_pool import MAX_REFUSAL_BYTES

TAKEN = "gzip, deflate"
"""The encodings that can be unpacked, for a client that asks for any."""
_ENCODING = "content-encoding"


class OverlongBody(Exception):
    """An answer's body is longer, unpacked, than the hub reads."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the answer is longer than {most_bytes:,} bytes")


class BoundedBody(httpx.AsyncByteStream):
    """A response's body, unpacked, up to a limit: beyond it an error's is cut off, and an answer's refused.

    Reading it raises `OverlongBody`, or `httpx.DecodingError` where it is not packed in a known way.
    """

    def __init__(self, body: httpx.AsyncByteStream, encoding: str, most_bytes: int | None, *, is_cut: bool) -> None:
        """`encoding` is the response's `Content-Encoding`; without `most_bytes` the reader bounds it."""
        self._body, self._encoding, self._most, self._is_cut = body, encoding.strip().lower(), most_bytes, is_cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        inflater: Inflater | None = None
        if self._encoding not in ("", "identity"):
            if self._encoding not in ENCODINGS:
                raise httpx.DecodingError(f"the answer is compressed ({self._encoding[:40]}), which was not asked for")
            inflater = Inflater()
        size = 0
        try:
            async for packed in self._body:
                for piece in (packed,) if inflater is None else _unpacked(inflater, packed):
                    if self._most is not None and size + len(piece) > self._most:
                        if not self._is_cut:
                            raise OverlongBody(self._most)
                        yield piece[: self._most - size]
                        return
                    size += len(piece)
                    yield piece
                    await anyio.lowlevel.checkpoint()  # a large body that is here already holds up nobody
            if inflater is not None:
                inflater.end()
        except BrokenExchange as error:
            raise httpx.DecodingError(str(error)) from None

    async def aclose(self) -> None:
        """Close the body that it reads."""
        await self._body.aclose()


def _unpacked(inflater: Inflater, packed: bytes) -> Iterator[bytes]:
    inflater.feed(packed)
    while piece := inflater.piece():
        yield piece


def bound(response: httpx.Response, *, is_file: bool = False) -> None:
    """Unpack and bound a response's body while it is read; `is_file`: its reader bounds what it has."""
    assert isinstance(response.stream, httpx.AsyncByteStream), "the clients are asynchronous"
    is_refused = response.status_code >= 300
    most = MAX_REFUSAL_BYTES if is_refused else None if is_file else MAX_ANSWER_BYTES
    encoding = response.headers.pop(_ENCODING, "")
    response.stream = BoundedBody(response.stream, encoding, most, is_cut=is_refused)


def bound_client(client: httpx.AsyncClient) -> None:
    """Unpack and bound the bodies of all responses of a client."""
    hooks = client.event_hooks
    client.event_hooks = {
        "request": [*hooks["request"], _ask_for_taken],
        "response": [_bound_response, *hooks["response"]],
    }


async def _ask_for_taken(request: httpx.Request) -> None:
    request.headers["accept-encoding"] = TAKEN


async def _bound_response(response: httpx.Response) -> None:
    if not isinstance(response.stream, BoundedBody):  # one that was read from a cache may be bounded already
        bound(response)
