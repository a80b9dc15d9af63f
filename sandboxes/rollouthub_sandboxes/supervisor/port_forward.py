"""Joins connections of programs in a sandbox to sockets of the hub, in either direction."""

import logging
import struct
from typing import TYPE_CHECKING

import anyio

from rollouthub.errors import SandboxError, said
from rollouthub.sandbox import ByteStream, Connector, SandboxFileError
from rollouthub_sandboxes.supervisor.channel import Channel, Failure, Streaming

if TYPE_CHECKING:
    from rollouthub_sandboxes.supervisor.client import Connection

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 30.0
CLOSE_SECONDS = 5.0
MOST_CONNECTIONS = 64
"""Most connections of one port at a time, since each takes file descriptors of the hub; more are closed."""


async def forward(connection: "Connection", port: int, connect: Connector, seconds: float) -> None:
    """Listen on a port inside the sandbox; each connection to it is joined to a stream that `connect` opens.

    Raises:
        SandboxFileError, SandboxError: as `Sandbox.forward`.
    """
    channel = Channel(connection)  # stays registered: it is the listening one
    connection.accept_with(channel.number, _Carrier(connection, port, connect).carry)
    try:
        connection.post("F", channel.number, struct.pack("<H", port))
        await channel.finish(seconds)
    except BaseException as error:
        channel.give_up()
        connection.forget(channel.number)
        if isinstance(error, Failure):
            raise SandboxFileError(f"port {port} of the sandbox cannot be had: {said(error)}", error.reason) from error
        raise


async def connect(connection: "Connection", port: int, seconds: float) -> ByteStream:
    """A connection to a port inside the sandbox; `aclose` must be called.

    Raises:
        SandboxFileError, SandboxError: as `Sandbox.connect`.
    """
    channel = Streaming(connection)
    stream = _Connected(connection, channel)
    try:
        connection.post("C", channel.number, struct.pack("<H", port))
        with anyio.move_on_after(seconds):
            while not (channel.has_started or channel.is_over):
                await channel.change()
        if not channel.has_started:
            if not channel.is_over:
                await connection.give_up(f"its supervisor did not answer within {seconds:g} s")
            channel.answer()
    except BaseException as error:
        await stream.aclose()
        if isinstance(error, Failure):
            raise SandboxFileError(f"port {port} of the sandbox: {said(error)}", error.reason) from error
        raise
    return stream


class _Connected:
    """The hub's end of a connection to a port inside a sandbox."""

    def __init__(self, connection: "Connection", channel: Streaming) -> None:
        self._connection, self._channel = connection, channel

    async def receive(self) -> bytes:
        """The next bytes; empty at the end."""
        piece = await self._channel.next_data()
        return b"" if piece is None else piece[1]

    async def send(self, data: bytes) -> None:
        """Write to the port, at the speed at which it is read."""
        await self._channel.feed(data)

    async def send_eof(self) -> None:
        """End what is written."""
        if not self._channel.is_over:
            self._channel.feed_eof()

    async def aclose(self) -> None:
        """Close it in both directions."""
        self._channel.give_up()
        self._connection.forget(self._channel.number)


class _Carrier:
    def __init__(self, connection: "Connection", port: int, connect: Connector) -> None:
        self._connection, self._port, self._connect = connection, port, connect
        self._live = 0

    async def carry(self, channel: Streaming) -> None:
        """Copy data in both directions until both sides have ended; an error ends only this connection."""
        self._live += 1
        try:
            if self._live <= MOST_CONNECTIONS:
                await self._pump(channel)
            else:
                logger.warning("port %d of a sandbox has more than %d connections", self._port, MOST_CONNECTIONS)
        except SandboxError:
            pass  # whoever uses the sandbox is told
        except Exception as error:
            logger.warning("a connection to port %d of a sandbox broke: %r", self._port, error)
        finally:
            self._live -= 1
            channel.give_up()
            self._connection.forget(channel.number)

    async def _pump(self, channel: Streaming) -> None:
        with anyio.fail_after(CONNECT_SECONDS):
            stream = await self._connect()
        try:
            async with anyio.create_task_group() as pumps:
                pumps.start_soon(_outward, channel, stream)
                while data := await stream.receive():
                    await channel.feed(data)
                channel.feed_eof()
        finally:
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await stream.aclose()


async def _outward(channel: Streaming, stream: ByteStream) -> None:
    while (piece := await channel.next_data()) is not None and piece[1]:
        await stream.send(piece[1])
    await stream.send_eof()
