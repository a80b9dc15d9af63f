"""The stream between the hub and the first process of a container: its standard input, output and error."""

import asyncio
import struct
from contextlib import suppress
from typing import Literal

import anyio

from rollouthub.errors import said
from rollouthub_sandboxes.engine.engine import Engine, EngineAway, EngineError

ATTACH_SECONDS = 30.0
READ_BYTES = 256 << 10
SENT_AHEAD_BYTES = 1 << 20
ERROR_BYTES = 8192
"""Bytes of standard error that are kept to explain why the process ended."""
_HEADER = struct.Struct(">BxxxI")
_STDERR = 2


class Attached:
    """A container's standard streams over one hijacked connection, as a byte stream of its output and input.

    Docker and Podman put an eight-byte header before each piece: whether it is output or error, and its length.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._buffer = bytearray()
        self._kind, self._left = 0, 0
        self._errors = b""

    @property
    def errors(self) -> str:
        """The last 8 KiB that were written to standard error."""
        return self._errors.decode(errors="replace").strip()

    async def receive(self) -> bytes:
        """The next piece of standard output; empty at the end, when the container ended or the engine broke off."""
        while True:
            piece = await self._piece()
            if piece is None:
                return b""
            kind, data = piece
            if kind != _STDERR:
                return data
            self._errors = (self._errors + data)[-ERROR_BYTES:]

    async def pieces(self) -> list[tuple[Literal["stdout", "stderr"], bytes]]:
        """The next pieces of both streams in order, each with its stream's name; empty at the end."""
        piece = await self._piece()
        return [] if piece is None else [("stderr" if piece[0] == _STDERR else "stdout", piece[1])]

    async def send(self, data: bytes) -> None:
        """Write to standard input; waits while the other end does not read.

        Raises:
            OSError: the connection is gone.
        """
        self._writer.write(data)
        await self._writer.drain()

    async def send_eof(self) -> None:
        """Close standard input."""
        with suppress(OSError, RuntimeError):
            if self._writer.can_write_eof():
                self._writer.write_eof()

    async def aclose(self) -> None:
        """Close the connection; a container created with `StdinOnce` then sees the end of its input."""
        self._writer.transport.abort()

    async def _piece(self) -> tuple[int, bytes] | None:
        while True:
            if self._left:
                if self._buffer:
                    data = bytes(self._buffer[: self._left])
                    del self._buffer[: len(data)]
                    self._left -= len(data)
                    return self._kind, data
            elif len(self._buffer) >= _HEADER.size:
                self._kind, self._left = _HEADER.unpack_from(self._buffer)
                del self._buffer[: _HEADER.size]
                continue
            try:
                data = await self._reader.read(READ_BYTES)
            except OSError:
                return None
            if not data:
                return None
            self._buffer += data


async def attach(engine: Engine, container: str) -> Attached:
    """Connect to a container's streams; to be called before it is started, so that no output is lost.

    Raises:
        EngineError: the engine refused, or did not answer in time.
    """
    return Attached(*await hijack(engine, f"/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1", b""))


async def start_exec(engine: Engine, exec_id: str) -> Attached:
    """Start an exec made by `exec_create`, with its streams attached.

    Raises:
        EngineError: the engine refused, or did not answer in time.
    """
    return Attached(*await hijack(engine, f"/exec/{exec_id}/start", b'{"Detach":false,"Tty":false}'))


async def hijack(engine: Engine, path: str, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Make a request whose connection then carries streams: with headers as `Attached` reads them, or raw with a
    terminal.

    Raises:
        EngineError: the engine refused, or did not answer in time.
    """
    try:
        with anyio.fail_after(ATTACH_SECONDS):
            return await _upgrade(engine, path, body)
    except TimeoutError as error:
        raise EngineError(f"{engine.name} did not answer {path} within {ATTACH_SECONDS:g} s; is it well?") from error
    except (OSError, EOFError) as error:
        raise EngineAway(f"{engine.name} at {engine.address.url} broke off {path}: {said(error)}") from error


async def _upgrade(engine: Engine, path: str, body: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await engine.address.open()
    try:
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: engine\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = int(head.split(" ", 2)[1])
        if status not in (101, 200):
            reason = (await reader.read(2000)).decode(errors="replace").strip()
            raise EngineError(f"{engine.name} refused {path}: {status} {reason}", status)
    except BaseException:
        writer.transport.abort()
        raise
    writer.transport.set_write_buffer_limits(high=SENT_AHEAD_BYTES)
    return reader, writer
