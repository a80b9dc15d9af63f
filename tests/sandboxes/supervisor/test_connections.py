"""Connections to a port of the sandbox's own loopback, by their frames."""

import errno
import socket
import struct
from collections.abc import Generator
from pathlib import Path

import pytest

from rollouthub_sandboxes.supervisor import frames
from tests.ports import free_port
from tests.sandboxes.supervisor.wire import SECONDS, Wire


@pytest.fixture
def port() -> int:
    """One that is free."""
    return free_port()


@pytest.fixture
def listener(wire: Wire, port: int) -> int:
    """The channel that listens."""
    channel = wire.channel()
    wire.send("F", channel, struct.pack("<H", port))
    assert wire.answer(channel).kind == "e"
    return channel


def accepted(wire: Wire, number: int) -> int:
    """The channel of the connection with this number, which has been announced."""
    channel = frames.ACCEPTED | number
    assert wire.next(channel)[0] == "o"
    return channel


@pytest.fixture
def inside(wire: Wire, listener: int, port: int) -> Generator[socket.socket]:
    """The program's end of a connection."""
    with socket.create_connection(("127.0.0.1", port), SECONDS) as connected:
        yield connected


def test_a_connection_is_announced_by_the_port_it_came_to(wire: Wire, listener: int, inside: socket.socket) -> None:
    assert wire.next(frames.ACCEPTED) == ("o", struct.pack("<I", listener))


def test_each_direction_ends_by_itself(wire: Wire, inside: socket.socket) -> None:
    channel = accepted(wire, 0)
    inside.sendall(b"question")
    inside.shutdown(socket.SHUT_WR)
    assert wire.next(channel) == ("d", b"question")
    assert wire.next(channel) == ("d", b"")
    wire.send("I", channel, b"answer")
    assert inside.recv(100) == b"answer"
    assert wire.next(channel) == ("i", struct.pack("<I", 6))
    wire.send("I", channel)
    assert inside.recv(100) == b""


def test_the_hub_may_end_first(wire: Wire, inside: socket.socket) -> None:
    channel = accepted(wire, 0)
    wire.send("I", channel)
    assert inside.recv(100) == b""
    inside.sendall(b"still here")
    assert wire.next(channel) == ("d", b"still here")
    inside.close()
    assert wire.next(channel) == ("d", b"")


def test_a_connection_is_paced_by_credit_both_ways(wire: Wire, inside: socket.socket) -> None:
    channel = accepted(wire, 0)
    inside.setblocking(False)
    sent = received = 0
    with pytest.raises(BlockingIOError):
        while True:
            sent += inside.send(bytes(1 << 16))
            wire.out(["/bin/true"])
    while received < frames.WINDOW:
        received += len(wire.next(channel)[1])
    assert not wire.has(channel)
    wire.send("A", channel, struct.pack("<I", sent))
    while received < sent:
        received += len(wire.next(channel)[1])
    assert received == sent
    inside.setblocking(True)
    wire.send("I", channel, b"x" * frames.WINDOW)
    taken = 0
    while taken < frames.WINDOW:
        taken += len(inside.recv(1 << 16))
    credited = 0
    while credited < frames.WINDOW:
        kind, payload = wire.next(channel)
        assert kind == "i"
        credited += int.from_bytes(payload, "little")
    assert credited == frames.WINDOW


def test_what_the_hub_gives_up_is_closed(wire: Wire, inside: socket.socket) -> None:
    channel = accepted(wire, 0)
    wire.send("K", channel, b"\0")
    assert inside.recv(1) == b""


def test_a_reset_connection_ends_for_the_hub(wire: Wire, inside: socket.socket) -> None:
    channel = accepted(wire, 0)
    inside.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    inside.close()
    assert wire.next(channel) == ("d", b"")
    wire.send("I", channel, b"to nobody")
    assert wire.next(channel) == ("i", struct.pack("<I", 9))


def test_a_port_closes_with_its_channel(wire: Wire, listener: int, port: int) -> None:
    wire.send("K", listener, b"\0")
    wire.out(["/bin/true"])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), SECONDS).close()


def test_a_port_in_use_is_refused(wire: Wire, listener: int, port: int) -> None:
    assert wire.ask("F", struct.pack("<H", port)).failure == (errno.EADDRINUSE, "listening")


def test_many_connections_are_told_apart(wire: Wire, listener: int, port: int) -> None:
    made = [socket.create_connection(("127.0.0.1", port), SECONDS) for _ in range(100)]
    try:
        for number, connected in enumerate(made):
            connected.sendall(str(number).encode())
        for number, connected in enumerate(made):
            channel = accepted(wire, number)
            assert wire.next(channel) == ("d", str(number).encode())
            wire.send("I", channel, f"{number} too".encode())
            wire.send("I", channel)
            assert connected.makefile("rb").read() == f"{number} too".encode()
    finally:
        for connected in made:
            connected.close()


def test_connections_never_use_up_what_commands_need(program: Path, port: int) -> None:
    limited = ["/bin/sh", "-c", f"ulimit -n 64; exec {program}"]
    with Wire(limited) as wire:
        channel = wire.channel()
        wire.send("F", channel, struct.pack("<H", port))
        assert wire.answer(channel).kind == "e"
        made = [socket.create_connection(("127.0.0.1", port), SECONDS) for _ in range(60)]
        try:
            # Those beyond its share are closed at once, and commands run on.
            assert made[-1].recv(1) == b""
            assert wire.out("ulimit -n") == b"64\n"
        finally:
            for connected in made:
                connected.close()


def test_without_a_file_to_spare_it_refuses_connections_and_still_kills(program: Path, port: int) -> None:
    with Wire(["/bin/sh", "-c", f"ulimit -n 32; exec {program}"]) as wire:
        listener = wire.channel()
        wire.send("F", listener, struct.pack("<H", port))
        assert wire.answer(listener).kind == "e"
        running: list[int] = []
        while True:
            running.append(wire.start("sleep 1000", flags=frames.STREAMS))
            kind, payload = wire.next(running[-1])
            if kind == "f":
                assert int.from_bytes(payload[:4], "little") == errno.EMFILE
                break
        running.pop()
        assert len(running) > 3
        made = [socket.create_connection(("127.0.0.1", port), SECONDS) for _ in range(20)]
        assert made[-1].recv(1) == b""
        for channel in running:
            wire.send("K", channel, b"\0")
            assert wire.answer(channel).ended.flags == frames.KILLED
        assert wire.out("echo on") == b"on\n"
        for connected in made:
            connected.close()
