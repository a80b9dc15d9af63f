"""The hub's end of a supervisor's connection, against peers that keep to the wire and peers that do not."""

import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from rollouthub.errors import NotOffered, SandboxError
from rollouthub.sandbox import CommandLimits, CommandNotStarted, Resources, Sandbox, SandboxFileError, SandboxRef
from rollouthub_sandboxes.supervisor import execution
from rollouthub_sandboxes.supervisor.client import supervise
from rollouthub_sandboxes.supervisor.frames import HEADER, MAX_PAYLOAD, VERSION, WINDOW, frame, string
from rollouthub_sandboxes.supervisor.sandbox import NO_LIMITS, SupervisedSandbox, Surroundings
from rollouthub_sandboxes.supervisor.stream import SocketStream

REF = SandboxRef(
    provider="scripted", walls="none", profile="hardened", network="none", user="nobody", resources=Resources()
)
HELLO = frame("h", 0, struct.pack("<II", VERSION, 1) + string("x86_64"))
END = struct.Struct("<iIQQIQQ")

Peer = Callable[["Wire"], Awaitable[None]]


class Wire:
    """The supervisor's end, frame by frame."""

    def __init__(self, stream: SocketStream) -> None:
        self._stream, self._buffer = stream, bytearray()

    async def next(self) -> tuple[str, int, bytes]:
        """The next frame from the hub."""
        while len(self._buffer) < HEADER.size or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4], "little"):
            if not (data := await self._stream.receive()):
                raise EOFError
            self._buffer += data
        size, kind, number = HEADER.unpack_from(self._buffer)
        payload = bytes(self._buffer[HEADER.size : 4 + size])
        del self._buffer[: 4 + size]
        return chr(kind), number, payload

    async def say(self, data: bytes) -> None:
        """Send bytes to the hub."""
        await self._stream.send(data)

    async def hang_up(self) -> None:
        """End the connection."""
        await self._stream.aclose()


def ended(number: int, status: int = 0, flags: int = 0, out: bytes = b"", dropped: int = 0) -> bytes:
    """An `E` frame."""
    return frame("E", number, END.pack(status, flags, 1500, 700, 2, dropped, 0) + string(out) + string(b""))


@asynccontextmanager
async def sandbox_of(
    peer: Peer, *, limits: CommandLimits = NO_LIMITS, hello: bytes = HELLO, hello_seconds: float = 10
) -> AsyncGenerator[Sandbox]:
    """A sandbox whose supervisor does as it is told."""
    ours, theirs = (SocketStream(end) for end in socket.socketpair())
    wire = Wire(theirs)

    async def play() -> None:
        try:
            await wire.say(hello)
            await peer(wire)
        except (EOFError, OSError, anyio.ClosedResourceError):
            pass  # the hub hung up first

    async with anyio.create_task_group() as group:
        group.start_soon(play)
        try:
            async with supervise(ours, hello_seconds=hello_seconds) as connection:
                around = Surroundings("/w", {"A": "1"}, limits=limits)
                yield SupervisedSandbox(connection, id="one", ref=REF, surroundings=around)
        finally:
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await wire.hang_up()


async def silence(wire: Wire) -> None:
    """Take everything in and say nothing."""
    while True:
        await wire.next()


def fault_of(error: BaseException) -> SandboxError:
    """The sandbox's error that a failed test body ended with."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    assert isinstance(error, SandboxError)
    return error


@pytest.mark.parametrize(
    ("hello", "says"),
    [
        (b"", "did not come up within 0.5 s"),
        (frame("h", 0, struct.pack("<II", VERSION + 1, 1) + string("x86_64")), f"version {VERSION + 1}"),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", "cannot be understood"),
        (frame("h", 0, b"short"), "cannot be understood"),
    ],
)
async def test_a_peer_that_does_not_greet_is_no_supervisor(hello: bytes, says: str) -> None:
    with pytest.raises((SandboxError, BaseExceptionGroup)) as caught:
        async with sandbox_of(silence, hello=hello, hello_seconds=10 if hello else 0.5):
            pytest.fail("it was to be refused")
    assert says in str(fault_of(caught.value))


async def test_an_end_without_a_greeting_is_told_at_once() -> None:
    async def leave(wire: Wire) -> None:
        await wire.hang_up()

    with pytest.raises((SandboxError, BaseExceptionGroup)) as caught, anyio.fail_after(5):
        async with sandbox_of(leave, hello=b""):
            pytest.fail("it was to be refused")
    assert "supervisor ended" in str(fault_of(caught.value))


async def test_every_pending_call_fails_when_the_connection_ends() -> None:
    async def leave(wire: Wire) -> None:
        for _ in range(3):
            await wire.next()
        await wire.hang_up()

    faults: list[str] = []
    async with sandbox_of(leave) as sandbox, anyio.create_task_group() as group:

        async def call(what: Awaitable[object]) -> None:
            with pytest.raises(SandboxError, match="supervisor ended"):
                await what
            faults.append("one")

        group.start_soon(call, sandbox.exec("a", timeout_seconds=900))
        group.start_soon(call, sandbox.read_file("b"))
        group.start_soon(call, sandbox.stop())
        with anyio.fail_after(5):
            while len(faults) < 3:
                await anyio.lowlevel.checkpoint()
        assert not sandbox.is_alive


@pytest.mark.parametrize(
    "nonsense",
    [
        HEADER.pack(MAX_PAYLOAD * 4, ord("d"), 1),
        HEADER.pack(1, ord("d"), 1),
        frame("d", 1, bytes(1001)),
        frame("E", 1, b"short"),
        frame("s", 1, b""),
    ],
    ids=["too long", "too short", "more than was to be kept", "half an end", "not asked for"],
)
async def test_nonsense_breaks_the_sandbox_and_not_the_hub(nonsense: bytes) -> None:
    async def babble(wire: Wire) -> None:
        await wire.next()
        await wire.say(nonsense)
        await silence(wire)

    async with sandbox_of(babble) as sandbox:
        with anyio.fail_after(5), pytest.raises(SandboxError):
            await sandbox.exec("a", output_bytes=1000)


async def test_a_stream_beyond_its_window_breaks_the_sandbox() -> None:
    async def flood(wire: Wire) -> None:
        _, number, _ = await wire.next()
        for _ in range(4):
            await wire.say(frame("d", number, bytes(WINDOW)))
        await silence(wire)

    async with sandbox_of(flood) as sandbox:
        with pytest.raises(SandboxError, match="whose window is"):
            async with sandbox.start("a") as program:
                await program.wait()


async def test_a_supervisor_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "GRACE_SECONDS", 0.2)
    async with sandbox_of(silence) as sandbox:
        with anyio.fail_after(5), pytest.raises(SandboxError, match="did not answer within"):
            await sandbox.exec("a", timeout_seconds=0.1)
        assert not sandbox.is_alive


async def test_a_cancelled_call_waits_until_its_command_is_dead() -> None:
    order: list[str] = []
    has_order = anyio.Event()

    async def die_slowly(wire: Wire) -> None:
        _, number, _ = await wire.next()
        has_order.set()
        kind, _, signal = await wire.next()
        order.append(f"{kind}{signal[0]}")
        await anyio.lowlevel.checkpoint()
        order.append("dead")
        await wire.say(ended(number, -9, 4))
        await silence(wire)

    async with sandbox_of(die_slowly) as sandbox:
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.exec, "a")
            await has_order.wait()
            group.cancel_scope.cancel()
        assert order == ["K0", "dead"]
        assert sandbox.is_alive


async def test_a_command_that_cannot_be_killed_breaks_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "KILL_SECONDS", 0.2)
    has_order = anyio.Event()

    async def live_on(wire: Wire) -> None:
        await wire.next()
        has_order.set()
        await silence(wire)

    async with sandbox_of(live_on) as sandbox:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(sandbox.exec, "a")
                await has_order.wait()
                group.cancel_scope.cancel()
        assert not sandbox.is_alive


@pytest.mark.parametrize(
    ("status", "flags", "seen"),
    [(3, 0, 3), (-15, 0, -15), (-9, 1, None), (-9, 4, None), (0, 8, -9), (-9, 8, -9)],
)
async def test_an_end_is_read_as_it_is_meant(status: int, flags: int, seen: int | None) -> None:
    async def end(wire: Wire) -> None:
        _, number, _ = await wire.next()
        await wire.say(frame("d", number, b"be") + frame("D", number, b"err"))
        await wire.say(ended(number, status, flags, b"gin"))
        await silence(wire)

    async with sandbox_of(end) as sandbox:
        done = await sandbox.exec("a")
    assert done.exit_status == seen
    assert done.timed_out is bool(flags & 1)
    assert (done.stdout.head, done.stdout.tail, done.stderr.head) == (b"begin", b"", b"err")
    assert (done.seconds, done.cpu_seconds, done.survivors) == (0.0015, 0.0007, 2)


async def test_processes_that_could_not_be_killed_are_the_sandboxs_fault() -> None:
    async def end(wire: Wire) -> None:
        _, number, _ = await wire.next()
        await wire.say(ended(number, -9, 1 | 16))
        await silence(wire)

    async with sandbox_of(end) as sandbox:
        with pytest.raises(SandboxError, match="could not be killed"):
            await sandbox.exec("a")


async def test_what_could_not_be_done_is_told_with_the_errno() -> None:
    async def fail(wire: Wire) -> None:
        while True:
            _, number, _ = await wire.next()
            await wire.say(frame("f", number, struct.pack("<I", 2) + string("opening")))

    async with sandbox_of(fail) as sandbox:
        with pytest.raises(CommandNotStarted, match=r"'a b'.*opening: No such file") as command:
            await sandbox.exec("a b")
        with pytest.raises(CommandNotStarted):
            async with sandbox.start("a b"):
                pytest.fail("it was to be refused")
        with pytest.raises(SandboxFileError, match="/w/x") as file:
            await sandbox.read_file("x")
        assert (command.value.reason, file.value.reason) == ("ENOENT", "ENOENT")
        assert await sandbox.collect(["/x"]) == []
        with pytest.raises(NotOffered):
            await sandbox.snapshot()


@pytest.mark.parametrize(
    ("asked", "always", "words"),
    [
        (CommandLimits(), CommandLimits(), (0, 0, 0)),
        (CommandLimits(), CommandLimits(memory_bytes=5), (0, 5, 0)),
        (CommandLimits(memory_bytes=9, cpu_seconds=1.2), CommandLimits(memory_bytes=5, file_bytes=7), (2, 5, 7)),
        (CommandLimits(memory_bytes=3), CommandLimits(memory_bytes=5), (0, 3, 0)),
    ],
)
async def test_a_command_never_has_more_than_its_sandbox(
    asked: CommandLimits, always: CommandLimits, words: tuple[int, int, int]
) -> None:
    async def look(wire: Wire) -> None:
        _, number, payload = await wire.next()
        assert struct.unpack_from("<IIQIQQ", payload)[3:] == words
        assert payload.endswith(string("a") + struct.pack("<I", 2) + string("A=1") + string("B=2"))
        await wire.say(ended(number))
        await silence(wire)

    async with sandbox_of(look, limits=always) as sandbox:
        assert (await sandbox.exec("a", limits=asked, environment={"B": "2"})).exit_status == 0


async def test_an_error_of_the_body_is_not_wrapped() -> None:
    ours, theirs = (SocketStream(end) for end in socket.socketpair())
    await theirs.send(HELLO)
    with pytest.raises(ZeroDivisionError):
        async with supervise(ours):
            _ = 1 / 0
    await theirs.aclose()
