"""Connections that somebody holds open keep nobody else out, where a process may have few files."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketStream

from rollouthub.event_loop import allow_open_files
from rollouthub.gateway.gateway_client import HubClient
from rollouthub.gateway.sessions.serve_sessions import HubReady
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from tests.gateway.sessions.front import TALLY, call
from tests.hosting.server.processes import started

FILES, HELD = 256, 200
TOKEN = "control-canary-5ca1e5"


@asynccontextmanager
async def holding(port: int, request: bytes, *, is_answered: bool) -> AsyncGenerator[None]:
    """Hold that many connections open, each with one request; some may be closed by the other side."""
    streams = list[SocketStream]()

    async def hold() -> None:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        streams.append(stream)
        try:
            await stream.send(request)
            if is_answered:
                await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass

    for _ in range(HELD // 50):
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(hold)
    try:
        assert len(streams) == HELD
        yield
    finally:
        for stream in streams:
            await anyio.aclose_forcefully(stream)


async def test_neither_strangers_nor_one_agent_keep_the_others_out(tmp_path: Path) -> None:
    allow_open_files()
    arguments = ("serve", TALLY, "--json", "--control", "127.0.0.1:0", "-o", str(tmp_path / "run"))
    async with started(*arguments, files=FILES, log=tmp_path / "log", ROLLOUTHUB_CONTROL_TOKEN=TOKEN) as hub:
        ready = HubReady.model_validate_json(await hub.line())
        port = int(ready.gateway_url.rpartition(":")[2])
        async with HubClient(ready.control_url, TOKEN) as client:
            greedy, honest = await client.open(EpisodeRequest()), await client.open(EpisodeRequest())
            assert greedy.agent_url is not None
            assert honest.agent_url is not None
            path = "/" + greedy.agent_url.split("/", 3)[3]
            head = "Host: localhost\r\nContent-Length: 1\r\n"
            for request, is_answered in (
                (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", True),
                (b"GET /health HTTP/1.1\r\nHost: loc", False),
                (f"POST {path} HTTP/1.1\r\n{head}\r\n?".encode(), True),
                (f"POST {path} HTTP/1.1\r\n{head}\r\n".encode(), False),
            ):
                async with holding(port, request, is_answered=is_answered):
                    await call(honest.agent_url, "add")
            await call(honest.agent_url, "submit", answer="four")
            report = await client.verify(honest.id)
    assert report.score is not None, (tmp_path / "log").read_text()
    assert report.score.reward == 1.0
