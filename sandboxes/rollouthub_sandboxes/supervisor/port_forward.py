"""Forwards connections from programs in a sandbox to sockets of the hub."""

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
