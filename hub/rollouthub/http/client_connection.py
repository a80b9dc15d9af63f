"""One connection of the HTTP/1.1 client: sends a request, and gives the response in pieces as they are taken."""

import asyncio
from collections.abc import Callable

import httptools

from rollouthub.http.no_answer import BrokenExchange, NoAnswer

MAX_HEADER_BYTES = 64 * 2**10
"""Maximum bytes of a response's headers."""
_MOST_WAITING = 256 * 2**10
"""Bytes of a body that were not taken yet, beyond which the server is not read from."""
_SENT_TOGETHER = 64 * 2**10
"""Maximum bytes of a body that is copied behind its headers, to be sent with them."""


class HttpConnection(asyncio.Protocol):
    """One connection; it carries one exchange at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_lost: "Callable[[HttpConnection], None]") -> None:
        self.status = 0
        """Status of the response; 0 until its headers are complete."""
        self.headers: dict[str, str] = {}
        """Headers of the response by their names in lower case; of a repeated one the first."""
        self.is_whole = True
        """Whether all of the response has arrived; also before the first request."""
        self.idle_since = 0.0
        self._loop, self._on_lost = loop, on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._is_kept = self._is_paused = False
        self._error: NoAnswer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._head_bytes = 0
        """Bytes since the last of a body: of headers, trailers, and what frames the pieces of a body."""

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent on the connection."""
        transport = self._transport
        return self.is_whole and self._is_kept and not transport.is_closing() and not transport.get_write_buffer_size()

    async def send(self, head: bytes, body: bytes) -> None:
        """Send a request, and wait for the headers of the response.

        Raises:
            NoAnswer: no valid headers arrived.
        """
        self.status, self.headers, self._head_bytes = 0, {}, 0
        self.is_whole = self._is_kept = False
        if self._pieces:  # of an answer whose body nobody wanted
            self._take()
        if len(body) <= _SENT_TOGETHER:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        while not self.status:
            await self._news()

    async def piece(self) -> bytes:
        """The next bytes of the body; empty at its end.

        Raises:
            NoAnswer: the response is not complete, and nothing more of it will come.
        """
        while not self._pieces:
            if self.is_whole:
                return b""
            await self._news()
        return self._take()

    def _take(self) -> bytes:
        piece = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._waiting_bytes = 0
        if self._is_paused and not self._transport.is_closing():
            self._transport.resume_reading()
        self._is_paused = False
        return piece

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    async def _news(self) -> None:
        """Wait until something more of the response has arrived."""
        if self._error is not None:
            raise self._error
        waiter = self._waiter = self._loop.create_future()
        try:
            await waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def fail(self, error: NoAnswer) -> None:
        """Close the connection; who waits for the response gets the error, after what has arrived of it."""
        if self._error is None:
            self._error = error
            self._wake()
        self.abort()

    # --- called by the event loop -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Called when the connection is open."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse bytes of the response; bytes without a request close the connection."""
        if self.is_whole:
            self.abort()
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.fail(BrokenExchange(f"what came is no HTTP answer: {error}"))
        if self._head_bytes > MAX_HEADER_BYTES:
            self.fail(BrokenExchange(f"the answer's headers are larger than {MAX_HEADER_BYTES >> 10} KiB"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection is closed, which completes a response without a length (RFC 9112, 6.3)."""
        if exc is None and self.status and not ({"content-length", "transfer-encoding"} & self.headers.keys()):
            self.is_whole = True
            self._wake()
        self.fail(BrokenExchange(str(exc or "the connection was closed before the answer was whole")))
        self._on_lost(self)

    # --- called by the parser ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Called when a response begins; a second response to the same request is an error, and is not read."""
        if self.is_whole:
            raise BrokenExchange("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called with one header of the response, or with one behind its body, which is left out."""
        if not self.status:
            self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t"))

    def on_headers_complete(self) -> None:
        """Called when the headers are complete and the body follows; a 1xx response is not the final one."""
        status = self._parser.get_status_code()
        if status < 200:
            self.headers.clear()
        else:
            self.status = status
            self._wake()

    def on_body(self, piece: bytes) -> None:
        """Called with a part of the body; reading pauses when too much of it waits."""
        self._head_bytes = 0
        self._pieces.append(piece)
        self._waiting_bytes += len(piece)
        if self._waiting_bytes > _MOST_WAITING and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        """Called when the response is complete."""
        if self.status:
            self.is_whole = True
            self._is_kept = self._parser.should_keep_alive()
            self._wake()
