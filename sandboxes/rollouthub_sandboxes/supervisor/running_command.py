"""A running command and its streams."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from rollouthub.sandbox import Finished, Program
from rollouthub_sandboxes.supervisor.channel import Failure, Side, Streaming
from rollouthub_sandboxes.supervisor.execution import GRACE_SECONDS, Order, finished, kill, not_started

if TYPE_CHECKING:
    from rollouthub_sandboxes.supervisor.client import Connection

START_SECONDS = 30.0


class SupervisedProgram:
    """A `Program` over a connection to a supervisor."""

    def __init__(self, connection: "Connection", ordered: Order) -> None:
        self._connection, self._order = connection, ordered
        self._channel = Streaming(connection)
        self._last_call = time.monotonic() + ordered.seconds + GRACE_SECONDS

    async def send(self, data: bytes) -> None:
        """Write to its standard input; waits while the program does not read."""
        await self._channel.feed(data)

    async def send_eof(self) -> None:
        """Close its standard input."""
        self._channel.feed_eof()

    def output(self) -> "Output":
        """Pieces of its output as they come, at the reader's pace."""
        return Output(self._channel)

    async def wait(self) -> Finished:
        """Wait for the program's end and return the result; its output must be read meanwhile.

        Raises:
            SandboxError: the connection to the sandbox broke.
        """
        channel = self._channel
        while not channel.is_over:
            left = self._last_call - time.monotonic()
            if left <= 0 and not channel.has_pending:
                await self._connection.give_up(f"a command did not end {GRACE_SECONDS:g} s after its deadline")
                break
            with anyio.move_on_after(max(left, 1.0)):
                await channel.change()
        return await finished(self._connection, channel.answer())

    async def kill(self, signal: int | None = None) -> None:
        """Kill all its processes and wait until they are dead; with `signal`, only send that signal to its process
        group.
        """
        if signal is None:
            await kill(self._connection, self._channel)
        else:
            self._channel.give_up(signal)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Program]:
        """Start the program; on exit it is killed, if it has not ended.

        Raises:
            CommandNotStarted: no such program, user or folder.
            SandboxError: the connection to the sandbox broke.
        """
        channel = self._channel
        try:
            self._connection.post("X", channel.number, self._order.payload)
            with anyio.move_on_after(START_SECONDS):
                while not (channel.has_started or channel.has_pending or channel.is_over):
                    await channel.change()
            if channel.is_over and not channel.has_pending:
                channel.answer()
            elif not channel.has_started and not channel.has_pending:
                await self._connection.give_up(f"{self._order.command} was not started within {START_SECONDS:g} s")
                channel.answer()
            yield self
        except Failure as failure:
            raise not_started(self._order.command, failure) from failure
        finally:
            await kill(self._connection, channel)
            self._connection.forget(channel.number)


class Output:
    """Iterates over the pieces of a program's output."""

    def __init__(self, channel: Streaming) -> None:
        self._channel = channel

    def __aiter__(self) -> "Output":
        return self

    async def __anext__(self) -> tuple[Side, bytes]:
        piece = await self._channel.next_data()
        if piece is None:
            raise StopAsyncIteration
        return piece
