"""A small HTTP/1.1 client: requests over pooled connections, with responses read whole or in pieces.

aiohttp's client needs more than twice the CPU for an exchange of a few hundred bytes; a rollout makes two with its
model, and in a served environment four more (`hub bench overhead`). It has no redirects, cookies or proxies.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Self

from yarl import URL

from rollouthub.http.client_connection import HttpConnection
from rollouthub.http.dialler import Dialler
from rollouthub.http.inflater import ENCODINGS, Inflater
from rollouthub.http.no_answer import AnswerTooLarge, AnswerTooSlow, BrokenExchange, NoAnswer
from rollouthub.http.whole_answer import WholeAnswer

MAX_ANSWER_BYTES = 64 * 2**20
"""Most bytes of a whole answer, unless its caller expects less."""
IDLE_SECONDS = 4.0
"""Seconds after which an idle connection is closed; common servers, vLLM's among them, close theirs after five."""
_REPEATABLE = frozenset({"GET", "DELETE"})
"""Methods that are sent again if a reused connection turns out to be closed (RFC 9110, 9.2.2)."""
_NO_HEADERS: Mapping[str, str] = {}

Origin = tuple[str, str | None, int | None]


class Exchange:
    """One request and its response, within a context; leaving it early closes the connection, so that the server
    notices. Made by `HttpPool.open`.
    """

    __slots__ = (
        "_connection", "_inflater", "_is_repeatable", "_pool", "_request", "_seconds", "_timer", "_url", "headers",
        "status",
    )  # fmt: skip

    def __init__(
        self, pool: "HttpPool", url: URL, request: tuple[bytes, bytes], seconds: float | None, *, is_repeatable: bool
    ) -> None:
        self._pool, self._url, self._request, self._seconds = pool, url, request, seconds
        self._is_repeatable = is_repeatable
        self._inflater: Inflater | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        seconds, loop = self._seconds, self._pool.loop
        deadline = None if seconds is None else loop.time() + seconds
        is_new = False
        while True:
            try:
                self._connection, is_kept = await self._pool.lease(self._url, deadline, is_new=is_new)
            except TimeoutError:
                raise AnswerTooSlow(seconds or 0.0) from None
            if deadline is not None:
                # Cheaper than cancelling the task, and it never meets a reader that waits for something else.
                self._timer = loop.call_at(deadline, self._expire)
            try:
                await self._send()
                return self
            except BaseException as error:
                self._connection.abort()
                self._end()
                if not (is_kept and self._is_repeatable and isinstance(error, BrokenExchange)):
                    raise
                is_new = True

    async def _send(self) -> None:
        connection = self._connection
        await connection.send(*self._request)
        self.status, self.headers = connection.status, connection.headers
        encoding = self.headers.get("content-encoding")
        if encoding is not None and (encoding := encoding.lower()) != "identity":
            if encoding not in ENCODINGS:
                raise BrokenExchange(f"the answer is compressed ({encoding}), which was not asked for")
            self._inflater = Inflater()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._pool.give_back(self._connection, self._url)

    def _expire(self) -> None:
        self._connection.fail(AnswerTooSlow(self._seconds or 0.0))

    async def piece(self) -> bytes:
        """The next bytes of the body, at most a few hundred KiB; empty at its end.

        Raises:
            BrokenExchange: the connection ended before the response was complete.
            AnswerTooSlow: nothing more came in the request's time.
        """
        inflater = self._inflater
        if inflater is None:
            return await self._connection.piece()
        while not (piece := inflater.piece()):
            packed = await self._connection.piece()
            if not packed:
                inflater.end()
                return b""
            inflater.feed(packed)
        return piece

    async def read(self, most_bytes: int) -> bytes:
        """The whole body.

        Raises:
            AnswerTooLarge: it has more than `most_bytes`.
            BrokenExchange: the connection ended before the response was complete.
            AnswerTooSlow: it was not complete in the request's time.
        """
        if int(self.headers.get("content-length", 0)) > most_bytes:
            raise AnswerTooLarge(most_bytes)
        first = await self.piece()
        size, pieces = len(first), [first]
        while size <= most_bytes:
            if not (piece := await self.piece()):
                return first if len(pieces) == 1 else b"".join(pieces)
            pieces.append(piece)
            size += len(piece)
            await asyncio.sleep(0)  # a large body that is here already holds up nobody
        raise AnswerTooLarge(most_bytes)

    async def beginning(self, most_bytes: int) -> bytes:
        """The beginning of the body, also of one that is too large or breaks off."""
        pieces, size = list[bytes](), 0
        with suppress(NoAnswer):
            while size < most_bytes and (piece := await self.piece()):
                pieces.append(piece)
                size += len(piece)
        return b"".join(pieces)[:most_bytes]


class HttpPool:
    """A pool of connections to servers, opened as needed. Made by `open_pool`."""

    def __init__(self, unix_path: str | None, headers: Mapping[str, str], most_connections: int | None) -> None:
        self.is_closed = False
        self._fixed = [f"{name}: {value}" for name, value in headers.items()]
        self.loop = asyncio.get_running_loop()
        self._dialler = Dialler(unix_path)
        self._slots = None if most_connections is None else asyncio.Semaphore(most_connections)
        self._open: set[HttpConnection] = set()
        self._idle: dict[Origin, list[HttpConnection]] = {}
        """Origin → its idle connections, the most recently used last."""
        self._sweep: asyncio.TimerHandle | None = None

    def open(
        self,
        method: str,
        url: URL | str,
        body: bytes = b"",
        headers: Mapping[str, str] = _NO_HEADERS,
        *,
        seconds: float | None = None,
    ) -> Exchange:
        """Make one request; its context gives the response once its headers have arrived, with the body to be read.

        `seconds` limit all waiting for the server together. Entering the context raises `NotConnected` where no
        connection could be opened, `BrokenExchange` or `AnswerTooSlow` where no headers came.

        Raises:
            ValueError: a header contains a line break.
        """
        if isinstance(url, str):
            url = URL(url)
        lines = [f"{method} {url.raw_path_qs} HTTP/1.1", f"Host: {url.host_port_subcomponent}", *self._fixed]
        if url.raw_user is not None:
            secret = f"{url.user}:{url.password or ''}".encode()
            lines.append(f"Authorization: Basic {b64encode(secret).decode()}")
        if headers:
            lines += [f"{name}: {value}" for name, value in headers.items()]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines)
        if head.count("\r") != len(lines) - 1 or head.count("\n") != len(lines) - 1 or "\0" in head:
            raise ValueError("a header holds a line break")
        request = f"{head}\r\n\r\n".encode(), body
        return Exchange(self, url, request, seconds, is_repeatable=method in _REPEATABLE)

    async def exchange(
        self,
        method: str,
        url: URL | str,
        body: bytes = b"",
        headers: Mapping[str, str] = _NO_HEADERS,
        *,
        seconds: float | None,
        most_bytes: int = MAX_ANSWER_BYTES,
    ) -> WholeAnswer:
        """Make one request; return the whole response. Cancelling closes the connection.

        Raises:
            NotConnected: no connection to the server could be opened.
            BrokenExchange: the connection ended before the response was complete.
            AnswerTooLarge: the body has more than `most_bytes`.
            AnswerTooSlow: the response was not complete within `seconds`.
            ValueError: a header contains a line break.
        """
        async with self.open(method, url, body, headers, seconds=seconds) as response:
            return WholeAnswer(response.status, await response.read(most_bytes), response.headers)

    # --- connections, for `Exchange` --------------------------------------------------------------------------------

    async def lease(self, url: URL, deadline: float | None, *, is_new: bool) -> tuple[HttpConnection, bool]:
        """A connection to a URL's server, and whether it was used before; waits while too many are in use.

        Raises:
            NotConnected: no connection could be opened.
            TimeoutError: there was none at the deadline.
        """
        slots = self._slots
        if slots is not None:
            if slots.locked():
                async with asyncio.timeout_at(deadline):
                    await slots.acquire()
            else:
                await slots.acquire()  # at once
        try:
            idle = self._idle.get((url.scheme, url.host, url.port))
            while idle and not is_new:
                connection = idle.pop()
                if connection.is_reusable and self.loop.time() < connection.idle_since + IDLE_SECONDS:
                    return connection, True
                connection.abort()
            async with asyncio.timeout_at(deadline):
                return await self._connected(url), False
        except BaseException:
            if slots is not None:
                slots.release()
            raise

    async def _connected(self, url: URL) -> HttpConnection:
        connection = HttpConnection(self.loop, self._open.discard)
        await self._dialler.connect(url, connection)
        self._open.add(connection)
        if self.is_closed:
            connection.abort()
        return connection

    def give_back(self, connection: HttpConnection, url: URL) -> None:
        """Keep a connection whose response is complete for the next request; close any other."""
        if self._slots is not None:
            self._slots.release()
        if not connection.is_reusable or self.is_closed:
            connection.abort()
            return
        connection.idle_since = self.loop.time()
        self._idle.setdefault((url.scheme, url.host, url.port), []).append(connection)
        if self._sweep is None:
            self._sweep = self.loop.call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connections that have been idle for too long, and look again when the next will have been."""
        oldest = self.loop.time() - IDLE_SECONDS
        nexts: list[float] = []
        for origin, connections in tuple(self._idle.items()):
            kept = [connection for connection in connections if connection.idle_since > oldest]
            for connection in connections[: len(connections) - len(kept)]:
                connection.abort()
            connections[:] = kept
            if kept:
                nexts.append(kept[0].idle_since)
            else:
                del self._idle[origin]
        self._sweep = self.loop.call_at(min(nexts) + IDLE_SECONDS, self._close_idle) if nexts else None

    def close(self) -> None:
        """Close every connection; requests in flight fail."""
        self.is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in tuple(self._open):
            connection.abort()


@asynccontextmanager
async def open_pool(
    unix_path: str | None = None, headers: Mapping[str, str] = _NO_HEADERS, *, most_connections: int | None = None
) -> AsyncGenerator[HttpPool]:
    """Open a pool of connections, all to one Unix socket if a path is given; `headers` are sent with every request.

    Beyond `most_connections` at a time, requests wait for one, in their order.
    """
    given = {"User-Agent": "rollouthub", "Accept-Encoding": "identity", **headers}
    pool = HttpPool(unix_path, given, most_connections)
    try:
        yield pool
    finally:
        pool.close()
