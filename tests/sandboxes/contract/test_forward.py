"""Loopback ports inside that lead to sockets of the hub, and connections of the hub to programs inside."""

import socket

import anyio
import pytest

from rollouthub.sandbox import ByteStream, Sandbox, SandboxFileError
from rollouthub_sandboxes.supervisor.port_forward import MOST_CONNECTIONS
from rollouthub_sandboxes.supervisor.stream import SocketStream
from tests.ports import free_port  # one kind of walls shares the machine's loopback

CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", PORT), timeout=20) as connection:
    BODY
"""
ASK = 'connection.sendall(b"hello"); connection.shutdown(1); print(connection.makefile("rb").read().decode())'
FLOOD = (
    "data = bytes(range(256)) * 20_000\n"
    "    import threading\n"
    "    threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(1))).start()\n"
    '    print(connection.makefile("rb").read() == data)'
)


def client(port: int, body: str) -> list[str]:
    """A program that connects to a port."""
    return ["python3", "-c", CLIENT.replace("PORT", str(port)).replace("BODY", body)]


class Echo:
    """A socket of the hub that says back what it hears, in capitals where that makes a difference."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = anyio.Event()

    async def __call__(self) -> ByteStream:
        """One more connection."""
        self.opened += 1
        return _EchoStream(self)


class _EchoStream:
    def __init__(self, echo: Echo) -> None:
        self._echo = echo
        self._ours, self._theirs = (SocketStream(end) for end in socket.socketpair())

    async def send(self, data: bytes) -> None:
        await self._theirs.send(data)

    async def send_eof(self) -> None:
        await self._theirs.send_eof()

    async def receive(self) -> bytes:
        return (await self._ours.receive()).replace(b"hello", b"HELLO")

    async def aclose(self) -> None:
        await self._ours.aclose()
        await self._theirs.aclose()
        self._echo.closed.set()


async def test_a_program_inside_talks_to_a_socket_of_the_hub(sandbox: Sandbox) -> None:
    echo, port = Echo(), free_port()
    await sandbox.forward(port, echo)
    done = await sandbox.exec(client(port, ASK))
    assert done.stdout.text == "HELLO\n", done.stderr.text
    with anyio.fail_after(5):
        await echo.closed.wait()
    assert echo.opened == 1


async def test_much_goes_both_ways_at_once(sandbox: Sandbox) -> None:
    port = free_port()
    await sandbox.forward(port, Echo())
    done = await sandbox.exec(client(port, FLOOD))
    assert done.stdout.text == "True\n", done.stderr.text


async def test_many_connections_at_once_are_kept_apart(sandbox: Sandbox) -> None:
    echo, port = Echo(), free_port()
    await sandbox.forward(port, echo)
    said: list[str] = []

    async def talk(number: int) -> None:
        body = ASK.replace("hello", f"hello {number}")
        said.append((await sandbox.exec(client(port, body))).stdout.text)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(talk, number)
    assert sorted(said) == [f"HELLO {number}\n" for number in range(8)]
    assert echo.opened == 8


async def test_a_socket_that_cannot_be_had_closes_the_connection_and_no_more(sandbox: Sandbox) -> None:
    async def refuse() -> ByteStream:
        raise ConnectionRefusedError("nobody listens")

    port = free_port()
    await sandbox.forward(port, refuse)
    done = await sandbox.exec(client(port, 'print(connection.recv(10) or "closed")'))
    assert done.stdout.text == "closed\n" or "Reset" in done.stderr.text
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_a_sandbox_has_its_share_of_connections_and_no_more(sandbox: Sandbox) -> None:
    echo, port = Echo(), free_port()
    await sandbox.forward(port, echo)
    body = f"""
    held = [connection] + [socket.create_connection(("127.0.0.1", {port})) for _ in range({MOST_CONNECTIONS + 20})]
    alive = 0
    for each in held:
        try:
            each.sendall(b"x")
            alive += each.recv(1) == b"x"
        except OSError:
            pass
    print(alive)
"""
    done = await sandbox.exec(client(port, body))
    assert done.stdout.text == f"{MOST_CONNECTIONS}\n", done.stderr.text
    assert echo.opened == MOST_CONNECTIONS


async def test_a_connection_dies_with_its_program(sandbox: Sandbox) -> None:
    echo, port = Echo(), free_port()
    await sandbox.forward(port, echo)
    body = 'connection.sendall(b"x"); connection.recv(1); print("up", flush=True); import time; time.sleep(1000)'
    async with sandbox.start(client(port, body)) as program:
        assert await anext(aiter(program.output())) == ("stdout", b"up\n")
        assert not echo.closed.is_set()
    with anyio.fail_after(10):
        await echo.closed.wait()


async def test_a_port_is_had_once(sandbox: Sandbox) -> None:
    port = free_port()
    await sandbox.forward(port, Echo())
    with pytest.raises(SandboxFileError) as caught:
        await sandbox.forward(port, Echo())
    assert caught.value.reason == "EADDRINUSE"


SERVER = """
import socket
with socket.create_server(("127.0.0.1", PORT)) as server:
    print("up", flush=True)
    connection, _ = server.accept()
    with connection:
        data = connection.makefile("rb").read()
        connection.sendall(data[::-1])
"""


async def test_the_hub_talks_to_a_program_that_listens_inside(sandbox: Sandbox) -> None:
    port, data = free_port(), bytes(range(256)) * 8_000
    async with sandbox.start(["python3", "-c", SERVER.replace("PORT", str(port))]) as program:
        assert await anext(aiter(program.output())) == ("stdout", b"up\n")
        stream = await sandbox.connect(port)
        await stream.send(data)
        await stream.send_eof()
        answer = bytearray()
        with anyio.fail_after(20):
            while piece := await stream.receive():
                answer += piece
        await stream.aclose()
    assert bytes(answer) == data[::-1]


async def test_a_port_that_nobody_listens_on_is_told_from_a_broken_sandbox(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxFileError) as caught:
        await sandbox.connect(free_port())
    assert caught.value.reason == "ECONNREFUSED"
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_a_closed_connection_ends_the_one_inside(sandbox: Sandbox) -> None:
    port = free_port()
    async with sandbox.start(["python3", "-c", SERVER.replace("PORT", str(port))]) as program:
        output = aiter(program.output())
        assert await anext(output) == ("stdout", b"up\n")
        await (await sandbox.connect(port)).aclose()
        with anyio.fail_after(10):
            assert (await program.wait()).exit_status is not None
