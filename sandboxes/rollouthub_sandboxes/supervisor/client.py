"""The hub's end of a connection to a supervisor: reads and writes frames, and gives them to their channels."""

import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.abc

from rollouthub.errors import SandboxError
from rollouthub.event_loop import background_tasks
from rollouthub.sandbox import ByteStream
from rollouthub_sandboxes.supervisor.channel import Channel, Streaming, again
from rollouthub_sandboxes.supervisor.frames import ACCEPTED, HEADER, MAX_PAYLOAD, VERSION, frame, read_string

HELLO_SECONDS = 15.0
CLOSE_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""Seconds to answer a request that needs no time, such as a listening port or a time to live."""
_HIGH_BYTES = 1 << 20
"""Senders wait while more than this is still to be written."""
_ACCEPTED, _HELLO = ord("o"), ord("h")
_GONE = (OSError, EOFError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


Blamed = Callable[[str], Awaitable[SandboxError]]


async def nobody_blamed(reason: str) -> SandboxError:
    """A plain `SandboxError`, for sandboxes where it cannot be known whether programs used up the resources."""
    return SandboxError(reason)


@dataclass(frozen=True, slots=True)
class Hello:
    """The contents of a supervisor's first frame."""

    version: int
    pid: int
    architecture: str


class Connection:
    """A live connection to a supervisor; `supervise` opens it."""

    def __init__(self, stream: ByteStream, tasks: anyio.abc.TaskGroup, blamed: Blamed) -> None:
        self._stream, self._tasks = stream, tasks
        self.blamed = blamed
        """Gives the error for a sandbox that does not respond; bounded in time, and runs to its end when cancelled."""
        self._channels: dict[int, Channel] = {}
        self._acceptors: dict[int, Callable[[Streaming], Coroutine[None, None, None]]] = {}
        self._last_number = 0
        self._incoming = bytearray()
        self._outgoing: list[bytes] = []
        self._outgoing_bytes = 0
        self._has_outgoing = anyio.Event()
        self._is_drained = anyio.Event()
        self._most_bytes = MAX_PAYLOAD + 5
        self._broken: SandboxError | None = None
        self._greeted, self._has_read = anyio.Event(), anyio.Event()
        self.hello = Hello(0, 0, "")

    @property
    def is_alive(self) -> bool:
        """Whether the connection to the supervisor still works."""
        return self._broken is None

    def register(self, channel: Channel, number: int | None = None) -> int:
        """Give all frames of a number to `channel` until `forget`; returns the number, a new one if None was given.

        Raises:
            SandboxError: the connection is broken.
        """
        if self._broken is not None:
            raise again(self._broken)
        if number is None:
            self._last_number = number = (self._last_number + 1) % ACCEPTED
        self._channels[number] = channel
        return number

    def forget(self, number: int) -> None:
        """Drop frames that still come in on a channel."""
        self._channels.pop(number, None)
        self._acceptors.pop(number, None)

    def accept_with(self, number: int, carry: Callable[[Streaming], Coroutine[None, None, None]]) -> None:
        """Run `carry`, which must never raise, in a task of its own for every connection of a listening channel."""
        self._acceptors[number] = carry

    def expect_end_of(self, size: int) -> None:
        """Allow an `E` frame of up to `size` bytes."""
        self._most_bytes = max(self._most_bytes, size)

    def post(self, kind: str, number: int, payload: bytes | memoryview = b"") -> None:
        """Queue a frame to be sent after those posted before."""
        if self._broken is None:
            data = frame(kind, number, bytes(payload))
            self._outgoing.append(data)
            self._outgoing_bytes += len(data)
            self._has_outgoing.set()

    async def drain(self) -> None:
        """Wait while too many bytes wait to be sent."""
        while self._outgoing_bytes > _HIGH_BYTES and self._broken is None:
            if self._is_drained.is_set():
                self._is_drained = anyio.Event()
            await self._is_drained.wait()

    async def ask(self, kind: str, payload: bytes = b"", seconds: float = ANSWER_SECONDS) -> int:
        """Send a request that is answered with a number, and return that number.

        Raises:
            Failure: the supervisor could not do it.
            SandboxError: the connection broke.
        """
        channel = Channel(self)
        try:
            self.post(kind, channel.number, payload)
            return int.from_bytes(await channel.finish(seconds), "little")
        finally:
            self.forget(channel.number)

    def live_for(self, seconds: float) -> None:
        """Have the supervisor end by itself after `seconds`, whatever becomes of the hub."""
        self._last_number += 1  # the answer is of no interest
        self.post("T", self._last_number, struct.pack("<I", min(int(seconds) + 1, 0xFFFF_FFFF)))

    def break_off(self, reason: str | SandboxError) -> None:
        """Mark the sandbox as broken: every pending and every later call fails with this reason."""
        if self._broken is None:
            reason = reason if isinstance(reason, SandboxError) else SandboxError(reason)
            self._broken = reason
            self._outgoing.clear()
            self._greeted.set()
            self._is_drained.set()
            for channel in tuple(self._channels.values()):
                channel.break_off(reason)

    async def give_up(self, reason: str) -> None:
        """Break off because the sandbox does not respond, with an error that says whether its programs are the
        reason.
        """
        if self._broken is None:
            self.break_off(await self.blamed(reason))

    async def greet(self, seconds: float) -> None:
        """Wait for the supervisor's first frame.

        Raises:
            SandboxError: the frame does not come in time, or the supervisor has another version.
        """
        with anyio.move_on_after(seconds):
            await self._greeted.wait()
        if self._broken is not None:
            raise again(self._broken)
        if not self._greeted.is_set():
            raise SandboxError(f"a sandbox's supervisor did not come up within {seconds:g} s")
        if self.hello.version != VERSION:
            raise SandboxError(
                f"a sandbox's supervisor speaks version {self.hello.version} of the wire, the hub {VERSION}; "
                "install rollouthub again",
                retryable=False,
            )

    async def read(self) -> None:
        """Handle incoming frames until the stream ends."""
        reason: str | SandboxError = "the sandbox is gone: its supervisor ended"
        try:
            while self._broken is None and (data := await self._stream.receive()):
                self._feed(data)
        except SandboxError as error:
            reason = error
        except _GONE as error:
            reason = f"the sandbox is gone: its connection broke ({error or type(error).__name__})"
        except (ValueError, struct.error) as error:
            reason = f"the sandbox's supervisor cannot be understood: {error}"
        self.break_off(reason)
        self._has_read.set()

    async def write(self) -> None:
        """Send posted frames until the stream breaks."""
        try:
            while True:
                await self._has_outgoing.wait()
                data = self._outgoing[0] if len(self._outgoing) == 1 else b"".join(self._outgoing)
                self._outgoing.clear()
                self._has_outgoing = anyio.Event()
                await self._stream.send(data)
                self._outgoing_bytes -= len(data)
                self._is_drained.set()
        except _GONE as error:
            with anyio.move_on_after(CLOSE_SECONDS):  # the other direction tells why
                await self._has_read.wait()
            self.break_off(f"the sandbox is gone: its connection broke ({error or type(error).__name__})")

    def _feed(self, data: bytes) -> None:
        buffer = self._incoming
        buffer += data
        at, end = 0, len(buffer)
        with memoryview(buffer) as view:
            while end - at >= HEADER.size:
                size, kind, number = HEADER.unpack_from(view, at)
                if not 5 <= size <= self._most_bytes:
                    raise ValueError(f"a frame of {size} bytes")
                if end - at < 4 + size:
                    break
                self._dispatch(kind, number, bytes(view[at + HEADER.size : at + 4 + size]))
                at += 4 + size
        del buffer[:at]

    def _dispatch(self, kind: int, number: int, payload: bytes) -> None:
        channel = self._channels.get(number)
        if channel is not None:
            channel.take(kind, payload)
        elif kind == _ACCEPTED:
            carry = self._acceptors.get(int.from_bytes(payload, "little"))
            if carry is None:
                self.post("K", number, b"\0")
            else:
                self._tasks.start_soon(carry, Streaming(self, number))
        elif kind == _HELLO:
            version, pid = struct.unpack_from("<II", payload)
            architecture, _ = read_string(payload, 8)
            self.hello = Hello(version, pid, architecture.decode(errors="replace"))
            self._greeted.set()
        # Else it is of a channel that was given up.


@asynccontextmanager
async def supervise(
    stream: ByteStream, *, hello_seconds: float = HELLO_SECONDS, blamed: Blamed = nobody_blamed
) -> AsyncGenerator[Connection]:
    """Connect to the supervisor at the other end of a stream; on exit the stream is closed, which ends the supervisor.

    `blamed` gives the error for a sandbox that does not respond or whose programs cannot be killed; its argument says
    what the sandbox failed to do.

    Raises:
        SandboxError: the supervisor does not answer, or is of another version.
    """
    async with background_tasks() as tasks:
        connection = Connection(stream, tasks, blamed)
        # Shielded: a caller that is cancelled still has its commands killed, and that is said over this connection.
        lives = [anyio.CancelScope(shield=True) for _ in range(2)]
        tasks.start_soon(_within, lives[0], connection.read)
        tasks.start_soon(_within, lives[1], connection.write)
        try:
            await connection.greet(hello_seconds)
            yield connection
        finally:
            connection.break_off("the sandbox was closed")
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await stream.aclose()
            for life in lives:
                life.cancel()


async def _within(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await work()
