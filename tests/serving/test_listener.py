"""The listener bounds what strangers can hold open."""

import aiohttp
import anyio
import pytest

from envhub.serving import listener
from envhub.serving.http import Receive, Scope, Send, answer
from envhub.serving.listener import bind_tcp, listening


async def _hello(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, 200, b"{}")


async def test_the_newest_connection_is_closed_beyond_the_bound_and_room_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "most_connections", lambda: 3)
    bound = bind_tcp("127.0.0.1", 0)
    port = bound.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    with anyio.fail_after(10):
        async with listening(_hello, bound), aiohttp.ClientSession() as http:
            async with http.get(url) as response:
                assert response.status == 200
            held = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(2)]
            extra = await anyio.connect_tcp("127.0.0.1", port)
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await extra.receive()
            await extra.aclose()
            async with http.get(url) as response:  # the oldest one still serves
                assert response.status == 200
            for stream in held:
                await stream.aclose()
            async with await anyio.connect_tcp("127.0.0.1", port) as again:
                await again.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await again.receive()).startswith(b"HTTP/1.1 200")


def test_the_bound_leaves_files_to_the_rest() -> None:
    files, _ = listener.resource.getrlimit(listener.resource.RLIMIT_NOFILE)
    assert files < 0 or files // 2 < listener.most_connections() < files
