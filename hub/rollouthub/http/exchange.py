"""A small HTTP/1.1 client: one request, one response of limited size, over pooled connections.

aiohttp's client needs more than twice the CPU for an exchange of a few hundred bytes, and a rollout in a served
environment takes four exchanges (`hub bench overhead`, the lane `served`). It has no redirects, cookies, proxies or
compression.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property

import httptools
from yarl import URL

CONNECT_SECONDS = 10.0
MAX_HEADER_BYTES = 64 * 2**10
"""Maximum bytes of a response's headers."""
_IDLE_SECONDS = 4.0
"""Seconds after which an idle connection is not reused; common servers close theirs after five."""
_REPEATABLE = frozenset({"GET", "DELETE"})
"""Methods that are sent again if a reused connection turns out to be closed (RFC 9110, 9.2.2)."""


class NotConnected(OSError):
    """No connection to the server could be opened."""


class BrokenExchange(OSError):
    """The connection ended before the response was complete, or the response is not valid HTTP."""


class AnswerTooLarge(Exception):
    """The response's body is larger than allowed."""


class _Connection(asyncio.Protocol):
    """One connection; carries one exchange at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_lost: "Callable[[_Connection], None]") -> None:
        self.idle_since = 0.0
        self._loop, self._on_lost = loop, on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._chunks: list[bytes] = []
        self._most_bytes = self._size = self._head_size = 0
        self._has_head = self._has_end = self._is_kept = False

    @property
    def is_reusable(self) -> bool:
        """Whether another request may be sent on the connection."""
        return self._is_kept and not self._transport.is_closing()

    async def ask(self, request: bytes, most_bytes: int) -> tuple[int, bytes]:
        """Send a request; return the status and body of the response.

        Raises:
            BrokenExchange: no complete response arrived.
            AnswerTooLarge: the response's body is larger than the limit.
        """
        self._most_bytes, self._size, self._head_size = most_bytes, 0, 0
        self._has_head = self._has_end = self._is_kept = False
        answer = self._answer = self._loop.create_future()
        self._transport.write(request)
        try:
            return await answer
        finally:
            self._answer, self._chunks = None, []

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Called when the connection is open."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse bytes of the response; bytes without a request close the connection."""
        if self._answer is None or self._answer.done():
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(BrokenExchange(f"what came is no HTTP answer: {error}"))
        if not self._has_head:
            self._head_size += len(data)
            if self._head_size > MAX_HEADER_BYTES:
                self._fail(BrokenExchange(f"the answer's headers are larger than {MAX_HEADER_BYTES >> 10} KiB"))

    def on_message_begin(self) -> None:
        """Called when a response begins; a second response to the same request is an error."""
        if self._answer is not None and self._answer.done():
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called with one header of the response."""
        name = name.lower()
        if name in (b"content-length", b"transfer-encoding"):
            self._has_end = True
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            self._fail(BrokenExchange("the answer is compressed, which was not asked for"))

    def on_headers_complete(self) -> None:
        """Called when the headers are complete and the body follows."""
        self._has_head = True

    def on_body(self, chunk: bytes) -> None:
        """Called with a part of the body."""
        self._size += len(chunk)
        if self._size > self._most_bytes:
            self._fail(AnswerTooLarge())
        else:
            self._chunks.append(chunk)

    def on_message_complete(self) -> None:
        """Called when the response is complete; a 1xx response is not the final one."""
        if self._parser.get_status_code() < 200:
            self._has_head = False
            return
        self._is_kept = self._parser.should_keep_alive()
        self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection is closed, which completes a response without a length (RFC 9112, 6.3)."""
        if exc is None and self._has_head and not self._has_end:
            self._finish()
        self._fail(BrokenExchange(str(exc or "the connection was closed before the answer was whole")))
        self._on_lost(self)

    def _finish(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), b"".join(self._chunks)))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
            self.abort()


class HttpPool:
    """A pool of connections to servers, opened as needed. Made by `open_pool`."""

    def __init__(self, unix_path: str | None, headers: Mapping[str, str]) -> None:
        self.is_closed = False
        self._unix_path, self._headers = unix_path, headers
        self._loop = asyncio.get_running_loop()
        self._open: set[_Connection] = set()
        self._idle: dict[tuple[str, str | None, int | None], list[_Connection]] = {}
        """Origin → its idle connections, the most recently used last."""

    async def exchange(
        self, method: str, url: URL, body: bytes | None, headers: Mapping[str, str], *, most_bytes: int
    ) -> tuple[int, bytes]:
        """Make one request; return status and body. Cancelling closes the connection, so that the server notices.

        Raises:
            NotConnected: no connection to the server could be opened.
            BrokenExchange: the connection ended before the response was complete.
            AnswerTooLarge: the body has more than `most_bytes`.
            ValueError: a header contains a line break.
        """
        request = self._written(method, url, body, headers)
        origin = url.scheme, url.host, url.port
        kept = self._kept(origin)
        if kept is not None:
            try:
                return await self._ask(kept, origin, request, most_bytes)
            except BrokenExchange:
                if method not in _REPEATABLE:
                    raise
        return await self._ask(await self._connected(url), origin, request, most_bytes)

    async def _ask(
        self, connection: _Connection, origin: tuple[str, str | None, int | None], request: bytes, most_bytes: int
    ) -> tuple[int, bytes]:
        try:
            answer = await connection.ask(request, most_bytes)
        except BaseException:
            connection.abort()
            raise
        if connection.is_reusable and not self.is_closed:
            connection.idle_since = self._loop.time()
            self._idle.setdefault(origin, []).append(connection)
        else:
            connection.abort()
        return answer

    def _written(self, method: str, url: URL, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        lines = [f"{method} {url.raw_path_qs} HTTP/1.1", f"Host: {url.host_port_subcomponent}"]
        lines += [f"{name}: {value}" for given in (self._headers, headers) for name, value in given.items()]
        if body is not None or method == "POST":
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join(lines)
        if head.count("\r") != len(lines) - 1 or head.count("\n") != len(lines) - 1 or "\0" in head:
            raise ValueError("a header holds a line break")
        return head.encode() + b"\r\n\r\n" + (body or b"")

    def _kept(self, origin: tuple[str, str | None, int | None]) -> _Connection | None:
        """The most recently used idle connection; None if it has been idle for too long, as then all of them have."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.is_reusable:
                if self._loop.time() - connection.idle_since < _IDLE_SECONDS:
                    return connection
                connection.abort()
        return None

    async def _connected(self, url: URL) -> _Connection:
        loop = self._loop
        if url.raw_host is None or url.port is None or url.scheme not in ("http", "https"):
            raise NotConnected(f"{url.scheme!r} is neither http nor https, or no host is named")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._unix_path is not None:
                    _, connection = await loop.create_unix_connection(self._made, self._unix_path)
                else:
                    context = self._ssl if url.scheme == "https" else None
                    _, connection = await loop.create_connection(self._made, url.raw_host, url.port, ssl=context)
        except TimeoutError as error:
            raise NotConnected(f"no answer within {CONNECT_SECONDS:g} s") from error
        except OSError as error:
            code = error.errno or 0  # negative where a name has no address
            raise NotConnected(os.strerror(code) if code > 0 else str(error) or type(error).__name__) from error
        self._open.add(connection)
        if self.is_closed:
            connection.abort()
        return connection

    def _made(self) -> _Connection:
        return _Connection(self._loop, self._open.discard)

    @cached_property
    def _ssl(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    def close(self) -> None:
        """Close every connection; requests in flight fail."""
        self.is_closed = True
        for connection in tuple(self._open):
            connection.abort()


@asynccontextmanager
async def open_pool(unix_path: str | None = None, headers: Mapping[str, str] | None = None) -> AsyncGenerator[HttpPool]:
    """Open a pool of connections, all to one Unix socket if a path is given; `headers` are sent with every request."""
    pool = HttpPool(unix_path, {"User-Agent": "rollouthub", "Accept-Encoding": "identity", **(headers or {})})
    try:
        yield pool
    finally:
        pool.close()
