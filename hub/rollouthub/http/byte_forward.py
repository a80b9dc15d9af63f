"""Passes connections on to a unix socket, byte by byte."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio

from rollouthub.http.named_sockets import open_socket_file

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 2048
"""Connections passed on at a time; further ones are closed."""
_PIECE = 64 * 2**10


@asynccontextmanager
async def forwarding(listener: socket.socket, path: Path) -> AsyncGenerator[None]:
    """Pass on every connection that a bound socket gets, within the context."""
    forward = _Forward(path)
    server = await asyncio.start_server(forward.serve, sock=listener)
    try:
        yield
    finally:
        server.close()
        forward.close()


class _Forward:
    """The connections that are being passed on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open: set[asyncio.StreamWriter] = set()

    def close(self) -> None:
        """Close them all."""
        for writer in tuple(self._open):
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on, until either side ends it."""
        if len(self._open) >= MOST_CONNECTIONS:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            descriptor = open_socket_file(str(self._path))
            try:
                there_reader, there_writer = await asyncio.open_unix_connection(f"/proc/self/fd/{descriptor}")
            finally:
                os.close(descriptor)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_pass, reader, there_writer)
                    await _pass(there_reader, writer)
                    tasks.cancel_scope.cancel()
            finally:
                there_writer.transport.abort()
        except OSError as error:
            logger.debug("a connection is not passed on to %s: %s", self._path, error)
        finally:
            self._open.discard(writer)
            writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until the end; the end is passed on, too."""
    with suppress(ConnectionError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        if not writer.is_closing() and writer.can_write_eof():
            writer.write_eof()
