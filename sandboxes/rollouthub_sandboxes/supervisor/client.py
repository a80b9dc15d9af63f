"""The hub's end of a connection to a supervisor: reads and writes frames, and hands them to their channels."""

import logging
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.abc

from rollouthub.errors import SandboxError
from rollouthub.sandbox import ByteStream
from rollouthub_sandboxes.supervisor.channel import Channel, Streaming, again
from rollouthub_sandboxes.supervisor.frames import ACCEPTED, HEADER, MAX_PAYLOAD, VERSION, frame, read_string

logger = logging.getLogger(__name__)

HELLO_SECONDS = 15.0
CLOSE_SECONDS = 5.0
ANSWER_SECONDS = 30.0
"""For what takes no time: a listening port, a time to live."""
_HIGH_BYTES = 1 << 20
"""Senders wait while more than this is still to be written."""
_ACCEPTED, _HELLO = ord("o"), ord("h")
_GONE = (OSError, EOFError, anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


Blamed = Callable[[str], Awaitable[SandboxError]]


async def nobody_blamed(reason: str) -> SandboxError:
    """The error where nobody can say whether what ran in a sandbox has used it up."""
    return SandboxError(reason)


@dataclass(frozen=True, slots=True)
class Hello:
    """What a supervisor says of itself."""

    version: int
    pid: int
    architecture: str


class Connection:
    """A live connection; `supervise` opens one."""

    def __init__(self, stream: ByteStream, tasks: anyio.abc.TaskGroup, blamed: Blamed) -> None:
        self._stream, self._tasks = stream, tasks
        self.blamed = blamed
        """The error for a sandbox that does not do as it is told; shielded and bounded."""
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
        """Whether the supervisor can be talked to."""
        return self._broken is None

    def register(self, channel: Channel, number: int | None = None) -> int:
        """Have a channel's frames handed to it, until `forget`; its number.

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
        """Drop what may still come in on a channel."""
        self._channels.pop(number, None)
        self._acceptors.pop(number, None)

    def accept_with(self, number: int, carry: Callable[[Streaming], Coroutine[None, None, None]]) -> None:
        """Have every connection that a listening channel announces carried by a task of its own, which never raises."""
        self._acceptors[number] = carry

    def expect_end_of(self, size: int) -> None:
        """Allow an `E` of this size."""
        self._most_bytes = max(self._most_bytes, size)

    def post(self, kind: str, number: int, payload: bytes | memoryview = b"") -> None:
        """Have a frame sent, after those that were posted before it."""
        if self._broken is None:
            data = frame(kind, number, bytes(payload))
            self._outgoing.append(data)
            self._outgoing_bytes += len(data)
            self._has_outgoing.set()

    async def drain(self) -> None:
        """Wait while too much is still to be written."""
        while self._outgoing_bytes > _HIGH_BYTES and self._broken is None:
            if self._is_drained.is_set():
                self._is_drained = anyio.Event()
            await self._is_drained.wait()

    async def ask(self, kind: str, payload: bytes = b"", seconds: float = ANSWER_SECONDS) -> int:
        """Send a request that is answered with a number; that number.

        Raises:
            Failure: it could not be done.
            SandboxError: the connection broke.
        """
        channel = Channel(self)
        try:
            self.post(kind, channel.number, payload)
            return int.from_bytes(await channel.finish(seconds), "little")
        finally:
            self.forget(channel.number)

    def live_for(self, seconds: float) -> None:
        """Have the supervisor end by itself after this time, whatever becomes of the hub."""
        self._last_number += 1  # the answer is of no interest
        self.post("T", self._last_number, struct.pack("<I", min(int(seconds) + 1, 0xFFFF_FFFF)))

    def break_off(self, reason: str | SandboxError) -> None:
        """Take the sandbox for broken: every pending call, and every later one, fails with this reason."""
        if self._broken is None:
            reason = reason if isinstance(reason, SandboxError) else SandboxError(reason)
            self._broken = reason
            self._outgoing.clear()
            self._greeted.set()
            self._is_drained.set()
            for channel in tuple(self._channels.values()):
                channel.break_off(reason)

    async def give_up(self, reason: str) -> None:
        """Break off as the sandbox does not do as it is told, once it is known whether what ran in it is why."""
        if self._broken is None:
            self.break_off(await self.blamed(reason))

    async def greet(self, seconds: float) -> None:
        """Wait for the supervisor's first frame.

        Raises:
            SandboxError: it does not come, or is of another version.
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
        """Take frames in until the stream ends."""
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
        """Send what is posted."""
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
    """Talk to the supervisor at the other end of a stream; the stream is closed on the way out, which ends it.

    `blamed`: the error for a sandbox that does not answer or whose programs cannot be killed, given what it did not do.

    Raises:
        SandboxError: it does not answer, or is of another version.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        connection = Connection(stream, tasks, blamed)
        # Shielded: a caller that is cancelled still has its commands killed, and that is said over this connection.
        lives = [anyio.CancelScope(shield=True) for _ in range(2)]
        tasks.start_soon(_within, lives[0], connection.read)
        tasks.start_soon(_within, lives[1], connection.write)
        try:
            await connection.greet(hello_seconds)
            yield connection
        except Exception as error:
            failure = error  # raised below, as the group would wrap it
        finally:
            connection.break_off("the sandbox was closed")
            with anyio.move_on_after(CLOSE_SECONDS, shield=True):
                await stream.aclose()
            for life in lives:
                life.cancel()
            tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def _within(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await work()
