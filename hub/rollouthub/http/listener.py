"""Serves an ASGI application on a listening socket, within a context manager."""

import asyncio
import math
import os
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import anyio
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rollouthub.errors import ConfigError
from rollouthub.http.asgi import CONNECTION, Application, Cancellable
from rollouthub.http.connections import connections_of

MAX_SOCKET_PATH = 107
"""Maximum bytes of a Unix socket's path; the kernel's limit is 108 including the terminating zero."""
MAX_HEADER_BYTES = 64 * 2**10
KEEP_ALIVE_SECONDS = 75
"""Seconds after which an idle connection that presented a token is closed; an agent may think long between two
calls.
"""
STRANGER_SECONDS = 20
"""Seconds after which an idle connection that never presented a token is closed."""
HEADER_SECONDS = 20.0
"""Maximum seconds from the connection, or from a request's first byte, to the end of its headers."""
BODY_SECONDS = 120.0
"""Maximum seconds from the end of a request's headers to the end of its body, against clients that send slowly to
occupy a connection.
"""
DRAIN_SECONDS = 1
_BACKLOG = 2048
_BLANKS = (b" ", b"\t")


class _Protocol(HttpToolsProtocol):
    """HTTP on one connection; cancels the work for a client when the client disconnects.

    The MCP SDK does not notice a disconnect in JSON mode; polling for it would slow every call and notice late.
    """

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.holder: bytes | None = None
        self.timeout_keep_alive = STRANGER_SECONDS
        self._all = connections_of(self.loop)
        self.app_state = {**self.app_state, CONNECTION: self}
        self._watching: set[Cancellable] = set()
        self._unparsed: int | None = 0
        """Bytes of the current headers received so far; None while a body is received."""
        self._patience: asyncio.TimerHandle | None = None
        self._is_patient_with_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Called when a client connects; at the limit of connections, this or an idle connection is closed."""
        super().connection_made(transport)
        if not self._all.admit(self, self.loop.time()):
            transport.abort()
            return
        self._be_patient(HEADER_SECONDS)

    def known_as(self, holder: bytes) -> None:
        """Record the token that a request presented: the connection may now idle longer, and connections without a
        token are closed before it.
        """
        if self.holder is None:
            self._all.strangers.pop(self, None)
            self.timeout_keep_alive = KEEP_ALIVE_SECONDS
        self.holder = holder

    def ends_at(self) -> float | None:
        """The event loop's time until which the client must act; None while its request is being answered."""
        for timer in (self.timeout_keep_alive_task, self._patience):
            if timer is not None:
                return timer.when()
        return -math.inf if self.flow.write_paused else None  # who does not read is not worked for

    def drop(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def on_response_complete(self) -> None:
        """Called when a response was sent: a connection without a token becomes the most recently active one."""
        super().on_response_complete()
        if self.holder is None and self in self._all.strangers:
            self._all.strangers[self] = self._all.strangers.pop(self)

    def _be_patient(self, seconds: float) -> None:
        """Close the connection unless the rest of the message arrives within some seconds."""
        self._lose_patience()
        self._patience = self.loop.call_later(seconds, self.transport.close)

    def _lose_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def watch(self, work: Cancellable) -> None:
        """Register work to cancel when the client disconnects."""
        self._watching.add(work)
        if self.transport.is_closing():
            work.cancel()
        # Reading pauses over large bodies, and who does not read is not told.
        self.flow.resume_reading()

    def forget(self, work: Cancellable) -> None:
        """Unregister the work."""
        self._watching.discard(work)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the client disconnected: cancels the work for it."""
        for work in self._watching:
            work.cancel()
        self._lose_patience()
        self._all.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Called with bytes of a request; headers that exceed the limit close the connection."""
        if self._unparsed is not None:
            self._unparsed += len(data)
        super().data_received(data)
        # Where the headers, or the whole message, were in `data`, this is None or 0 by now.
        if self._unparsed is not None and self._unparsed > MAX_HEADER_BYTES:
            self.transport.close()
        self._bound_the_rest()

    def _bound_the_rest(self) -> None:
        """Limit the time for the rest of a message. Most messages arrive whole and need no timer."""
        is_body = self._unparsed is None
        if self._unparsed == 0:
            self._lose_patience()
        elif self._patience is None or is_body != self._is_patient_with_body:
            self._is_patient_with_body = is_body
            self._be_patient(BODY_SECONDS if is_body else HEADER_SECONDS)

    def on_headers_complete(self) -> None:
        """Called when the headers are complete; the following body is limited in size by its reader."""
        self._unparsed = None
        self._strip_headers()
        super().on_headers_complete()

    def _strip_headers(self) -> None:
        """Strip white space after a header's value, which is not part of it (RFC 9110, 5.5) and which the parser
        leaves. Done for all at once: a callback for each header would cost every request more.
        """
        headers = self.headers
        for place, (name, value) in enumerate(headers):
            if value[-1:] in _BLANKS:
                value = value.strip(b" \t")
                headers[place] = name, value
                if name == b"expect" and value.lower() == b"100-continue":
                    self.expect_100_continue = True

    def on_message_complete(self) -> None:
        """Called when the request is complete; the next bytes are headers again."""
        self._unparsed = 0
        super().on_message_complete()


class _Server(Server):
    """A uvicorn server that installs no signal handlers, and stops at once when nobody is connected."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.leaving, self.ended = asyncio.Event(), asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Install no signal handlers; the owner of the process handles signals."""
        yield

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until `leaving` is set, not until the owner is cancelled: the sockets would stay open."""
        try:
            with anyio.CancelScope(shield=True):
                await super().serve(sockets)
        finally:
            self.ended.set()

    async def main_loop(self) -> None:
        """Serve until `leaving` is set; uvicorn looks ten times a second."""
        await self.leaving.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections; wait for the others as uvicorn does, if there are any, and drop who is left."""
        # asyncio loses a connection that it accepted in the turn in which its server closes: it stays open, and nobody
        # serves it. So accepting ends a turn earlier.
        for each in sockets or ():
            asyncio.get_running_loop().remove_reader(each)
        await asyncio.sleep(0)
        for each in (*self.servers, *(sockets or ())):
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            if told := set(self.server_state.tasks):  # they were cancelled, and say so to their clients
                await asyncio.wait(told, timeout=DRAIN_SECONDS)
            for connection in cast(list[_Protocol], list(self.server_state.connections)):
                connection.drop()  # who does not read would hold it for ever


def bind_tcp(host: str, port: int) -> socket.socket:
    """Return a bound TCP socket; port 0 takes a free port.

    Raises:
        ConfigError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol named, asyncio sends what is written at once; else each answer waits 40 ms for the client's ACK.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    bound.setblocking(False)
    return bound


def bind_unix(path: str) -> socket.socket:
    """Return a Unix socket that only this user can connect to.

    Raises:
        ConfigError: the path is too long, in use, or cannot be written.
    """
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise ConfigError(
            f"the control socket's path {path!r} is longer than {MAX_SOCKET_PATH} bytes; "
            "give a shorter one with --control unix:PATH"
        )
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_dead(path)
        before = os.umask(0o177)
        try:
            bound.bind(path)
        finally:
            os.umask(before)
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on unix:{path}: {error.strerror or error}") from error
    bound.setblocking(False)
    return bound


def _remove_dead(path: str) -> None:
    """Remove the socket file of a server that has gone; the file of a server that accepts connections stays."""
    if not Path(path).is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()


@asynccontextmanager
async def listening(application: Application, bound: socket.socket) -> AsyncGenerator[None]:
    """Serve an application on a bound socket within the block; at the end, open connections get a moment to finish.

    So they do if the block fails or is cancelled; the socket is closed in any case.
    """
    config = Config(
        application,  # pyright: ignore[reportArgumentType]  # ASGI, in our own words for it
        http=_Protocol,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        backlog=_BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = _Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [bound])
        try:
            # uvicorn has no event to wait for; it takes one turn of the loop
            while not server.started:  # noqa: ASYNC110
                await asyncio.sleep(0)
            yield
        finally:
            server.leaving.set()
            with anyio.CancelScope(shield=True):
                await server.ended.wait()
