"""One channel of a connection to a supervisor: a request and its answer, or a stream."""

import errno
import os
import struct
from collections import deque
from typing import TYPE_CHECKING, Literal

import anyio

from rollouthub.errors import SandboxError
from rollouthub_sandboxes.supervisor.frames import WINDOW

if TYPE_CHECKING:
    from rollouthub_sandboxes.supervisor.client import Connection

Side = Literal["stdout", "stderr"]
OUT, ERR, CREDIT, ENDED, DONE, FAILED = (ord(kind) for kind in "dDiEef")
_U32 = struct.Struct("<I")
_CREDIT_STEP = WINDOW // 4
"""Output is acknowledged in steps of this many bytes, so that small pieces do not cost a frame each."""
_FEED_BYTES = WINDOW // 2
"""Input is sent in pieces of this size, once the window has room, so that it does not go out in tiny frames."""


def again(error: SandboxError) -> SandboxError:
    """A copy of an error, to be raised to another caller."""
    return type(error)(str(error), retryable=error.retryable)


class Failure(Exception):
    """The supervisor's `f` frame: an errno, and what was tried."""

    def __init__(self, number: int, tried: str) -> None:
        self.reason = errno.errorcode.get(number, str(number))
        self.tried = tried
        super().__init__(f"{tried}: {os.strerror(number)}")


class Channel:
    """Waits for the answer to a request; input sent on it keeps to the window. Subclasses handle data that comes in."""

    __slots__ = (
        "_changed",
        "_connection",
        "_end",
        "_failure",
        "_unacknowledged",
        "broken",
        "has_started",
        "number",
        "room",
    )

    def __init__(self, connection: "Connection", number: int | None = None) -> None:
        self._connection = connection
        self.number = connection.register(self, number)
        self.room = WINDOW
        """Bytes that may still be sent."""
        self.has_started = False
        """Whether the first credit has come, which says that the program has started."""
        self.broken: SandboxError | None = None
        self._end: bytes | None = None
        self._failure: Failure | None = None
        self._unacknowledged = 0
        self._changed: anyio.Event | None = None

    @property
    def is_over(self) -> bool:
        """Whether no more frames will come."""
        return self._end is not None or self._failure is not None or self.broken is not None

    def take(self, kind: int, payload: bytes) -> None:
        """Handle a frame that came in.

        Raises:
            ValueError: the frame is not one that this channel may get.
        """
        if kind in (OUT, ERR):
            self.take_data("stdout" if kind == OUT else "stderr", payload)
            return
        if kind == CREDIT:
            self.has_started = True
            self.room += int.from_bytes(payload, "little")
        elif kind in (ENDED, DONE):
            self._end = payload
        elif kind == FAILED:
            self._failure = Failure(int.from_bytes(payload[:4], "little"), payload[8:].decode(errors="replace"))
        else:
            raise ValueError(f"a frame of kind {chr(kind)!r} on channel {self.number}")
        self.wake()

    def take_data(self, side: Side, data: bytes) -> None:
        """Handle output; this class takes none, subclasses do.

        Raises:
            ValueError: no data was asked for on this channel.
        """
        raise ValueError(f"{len(data)} bytes on channel {self.number}, which asked for none")

    def break_off(self, reason: SandboxError) -> None:
        """Mark the connection as broken, and wake everybody who waits on the channel."""
        self.broken = reason
        self.wake()

    def wake(self) -> None:
        """Wake the tasks that wait for a change."""
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    async def change(self) -> None:
        """Wait until a frame comes in or the connection breaks."""
        if self._changed is None:
            self._changed = anyio.Event()
        await self._changed.wait()

    def answer(self) -> bytes:
        """The payload of the final frame, once the channel is over.

        Raises:
            Failure: the supervisor could not do what was requested.
            SandboxError: the connection broke.
        """
        if self._failure is not None:
            raise self._failure
        if self._end is not None:
            return self._end
        if self.broken is None:
            raise SandboxError("a sandbox's answer was asked for before it came")
        raise again(self.broken)

    async def finish(self, seconds: float) -> bytes:
        """Wait for the final frame and return its payload; after `seconds` the whole sandbox counts as broken.

        Raises:
            Failure, SandboxError: as `answer`.
        """
        with anyio.move_on_after(seconds):
            while not self.is_over:
                await self.change()
        if not self.is_over:
            await self._connection.give_up(f"its supervisor did not answer within {seconds:g} s")
        return self.answer()

    async def feed(self, data: bytes | memoryview) -> None:
        """Send input as fast as the window allows; the rest is dropped once the channel is over."""
        view = memoryview(data)
        while view and not self.is_over:
            size = min(len(view), _FEED_BYTES)
            if self.room < size:
                await self.change()
                continue
            self.room -= size
            self._connection.post("I", self.number, view[:size])
            view = view[size:]
            await self._connection.drain()

    def feed_eof(self) -> None:
        """Signal the end of the input."""
        self._connection.post("I", self.number)

    def give_up(self, signal: int = 0) -> None:
        """Have the supervisor kill or abandon what runs on this channel; with `signal`, send only that signal."""
        if not self.is_over:
            self._connection.post("K", self.number, bytes((signal,)))

    def acknowledge(self, size: int) -> None:
        """Let the supervisor send `size` bytes more."""
        self._unacknowledged += size
        if self._unacknowledged >= _CREDIT_STEP and not self.is_over:
            self._connection.post("A", self.number, _U32.pack(self._unacknowledged))
            self._unacknowledged = 0


class Collecting(Channel):
    """Collects all data of a file or a listing, up to a bound."""

    __slots__ = ("_budget", "data")

    def __init__(self, connection: "Connection", budget: "Budget") -> None:
        super().__init__(connection)
        self._budget = budget
        self.data = bytearray()

    def take_data(self, side: Side, data: bytes) -> None:
        """Keep the data; past the bound, fail with EFBIG."""
        self._budget.left -= len(data)
        if self._budget.left < 0:
            self.give_up()
            self._failure = Failure(errno.EFBIG, "reading")
            self.data.clear()
            self.wake()
            return
        self.data += data
        self.acknowledge(len(data))


class Budget:
    """The bytes that several channels together may still receive."""

    __slots__ = ("left",)

    def __init__(self, size: int) -> None:
        self.left = size


class Streaming(Channel):
    """Hands its data on at the reader's pace: a program's output, or a connection."""

    __slots__ = ("_pending", "_pending_bytes")

    def __init__(self, connection: "Connection", number: int | None = None) -> None:
        super().__init__(connection, number)
        self._pending: deque[tuple[Side, bytes]] = deque()
        self._pending_bytes = 0

    def take_data(self, side: Side, data: bytes) -> None:
        """Keep the data until it is read; the window bounds how much there can be."""
        self._pending_bytes += len(data)
        if self._pending_bytes > 2 * WINDOW:
            raise ValueError(f"{self._pending_bytes} bytes on channel {self.number}, whose window is {WINDOW}")
        self._pending.append((side, data))
        self.wake()

    @property
    def has_pending(self) -> bool:
        """Whether received data waits to be read."""
        return bool(self._pending)

    async def next_data(self) -> tuple[Side, bytes] | None:
        """The next piece of data with the name of its stream; None at the end.

        Raises:
            SandboxError: the connection broke.
        """
        while not self._pending:
            if self.broken is not None:
                raise again(self.broken)
            if self.is_over:
                return None
            await self.change()
        side, data = self._pending.popleft()
        self._pending_bytes -= len(data)
        self.acknowledge(len(data))
        return side, data
