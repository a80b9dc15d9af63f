"""A socket that takes calls as an engine does, and answers only those it is told to answer."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import anyio
import docker

from rollouthub_sandboxes.engine.address import Address
from rollouthub_sandboxes.engine.api import EngineApi
from rollouthub_sandboxes.engine.engine import Engine

_LAST = "/last"


class StubEngine:
    """What was asked of it; on everything else than what it answers it stays silent for ever."""

    def __init__(self, path: Path) -> None:
        self.host = f"unix://{path}"
        self.asked: Counter[str] = Counter()
        """Method and path, without the version and the query."""
        self.connections: dict[asyncio.StreamWriter, anyio.Event] = {}
        self.answered: tuple[str, ...] = ("/_ping",)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections[writer] = over = anyio.Event()
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, _ = head.decode().split(" ", 2)
                path = target.partition("?")[0].removeprefix("/v1.41")
                if path == _LAST:
                    break
                self.asked[f"{method} {path}"] += 1
                if path not in self.answered:
                    await reader.read()  # whatever follows, until the caller gives up
                    break
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
                await writer.drain()
        except (OSError, EOFError):
            pass
        writer.transport.abort()
        over.set()


@asynccontextmanager
async def listening(path: Path) -> AsyncGenerator[StubEngine]:
    """One that listens at a path."""
    stub = StubEngine(path)
    # Not anyio's listener: asyncio breaks where an accept is cancelled just as somebody connects.
    server = await asyncio.start_unix_server(stub.take, path)
    try:
        yield stub
    finally:
        # Connections are taken in their order: when this one is, there is none that nobody knows of.
        last, writer = await asyncio.open_unix_connection(path)
        writer.write(f"GET {_LAST} HTTP/1.1\r\n\r\n".encode())
        with suppress(OSError):
            await last.read()
        writer.close()
        server.close()
        await anyio.Path(path).unlink(missing_ok=True)  # from 3.13 on, asyncio removes it
        for writer, over in stub.connections.items():
            writer.transport.abort()
            await over.wait()


@asynccontextmanager
async def engine_at(path: Path, seconds: int = 1) -> AsyncGenerator[Engine]:
    """An engine that is given so many seconds for an answer, whether or not anybody listens there."""
    client = docker.APIClient(base_url=f"unix://{path}", timeout=seconds, version="1.41")
    api = cast(EngineApi, client)
    try:
        yield Engine(Address(f"unix://{path}"), api, api, {"Version": "20.10.24", "Arch": "amd64"})
    finally:
        api.close()
