"""Passing connections on to a unix socket: what either side does to its end is no error of who passes it on."""

import asyncio
import socket
import struct
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub.http.byte_forward import forwarding

AT_ONCE = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing resets the connection."""


@pytest.mark.parametrize("use_uvloop", [True, False], ids=["uvloop", "asyncio"])
def test_a_client_that_is_gone_before_the_answer_ends_is_no_error(tmp_path: Path, use_uvloop: bool) -> None:
    unhandled: list[dict[str, Any]] = []

    async def play() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        is_over = anyio.Event()
        client = socket.socket()
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            client.close()
            for _ in range(20):  # in which the loop sees that the client has gone
                await asyncio.sleep(0)
            writer.close()
            await writer.wait_closed()
            is_over.set()

        path = tmp_path / "a.sock"
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            async with await asyncio.start_unix_server(answer, path), forwarding(listener, path):
                loop = asyncio.get_running_loop()
                await loop.sock_connect(client, listener.getsockname())
                await loop.sock_sendall(client, b"?")
                with anyio.fail_after(5):
                    await is_over.wait()
                for _ in range(20):
                    await asyncio.sleep(0)

    anyio.run(play, backend_options={"use_uvloop": use_uvloop})
    assert unhandled == []
