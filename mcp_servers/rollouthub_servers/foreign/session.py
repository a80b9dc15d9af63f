"""`ForeignSession`: one connection to a driver that serves JSON lines, with typed errors and bounded waits."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.abc import SocketStream
from pydantic_core import PydanticSerializationError, from_json, to_json

from rollouthub.errors import HubError, SandboxOverrun, TaskError
from rollouthub.event_loop import is_crowded_message
from rollouthub_servers.foreign.process import ForeignProcess

ANSWER_BYTES = 64 << 20
"""Maximum size in bytes of an answer."""

_TOO_DEEP = "Maximum serialization depth"
"""What pydantic says of a value that is nested beyond its bound."""


class ForeignRefusal(HubError):
    """The driver refused a request (`serving.Refused`); its message may be shown to the agent."""


class _GarbageError(Exception):
    """A line from the driver is no answer: foreign code wrote it, or a driver that answers no session."""


class ForeignSession:
    """Connection of one episode, or one import, to a foreign process; one request at a time."""

    def __init__(self, process: ForeignProcess, stream: SocketStream) -> None:
        self.process, self._stream = process, stream
        self._buffer = bytearray()
        self._asking = anyio.Lock()
        self._is_broken = self._is_garbled = False

    async def ask(self, do: str, *, seconds: float, **given: Any) -> Any:
        """Call the driver's function of that name and return its result.

        Raises:
            ForeignRefusal: the driver refused the request.
            TaskError: the process is gone, hangs, answers garbage, took too long, or its code failed.
        """
        async with self._asking:
            if self._is_broken:
                raise self.process.fault("has lost its place after a call that was given up")
            self._is_broken = True  # unless an answer comes: after a cancellation the next would be the last's
            answer: dict[str, Any] | None = None
            try:
                with anyio.move_on_after(seconds):
                    answer = await self._exchange({**given, "do": do})
            except _GarbageError as error:
                self._is_garbled = True
                await self._require_alive(str(error))
                raise self.process.fault(str(error)) from error
            if answer is None:
                await self._require_alive(f"did not answer {do!r} within {seconds:g} s, nor anything else since")
                raise self.process.fault(f"did not answer {do!r} within {seconds:g} s")
            self._is_broken = False
        if "refused" in answer:
            raise ForeignRefusal(str(answer["refused"]))
        if "failed" in answer:
            raise TaskError(f"{self.process.program.name} failed in {do!r}: {answer['failed']}")
        return answer.get("is")

    async def act(self, do: str, *, seconds: float, what: str, **given: Any) -> Any:
        """`ask` for what the agent does, `what` in words, where each session is a process of its own.

        Raises:
            ForeignRefusal: the driver refused the request.
            SandboxOverrun: only this session is gone or hangs: the agent did that.
            TaskError: the driver is gone or hangs, or the foreign code failed.
        """
        try:
            return await self.ask(do, seconds=seconds, **given)
        except TaskError as error:
            raise await self.blame(error, what) from error

    async def blame(self, error: TaskError, what: str) -> Exception:
        """Decide who caused a call to fail, where each session is a process (`serve(forked_seconds=…)`,
        `serve_forked`).

        Returns a `SandboxOverrun`, which blames the agent, if only this session is gone; `error` if the driver or the
        foreign code failed.
        """
        if not self.process.is_alive or self._is_garbled:
            return error
        try:
            await self.ask("ping", seconds=self.process.program.ping_seconds)
            return error
        except TaskError:
            return SandboxOverrun(f"{what} took longer than a call may, or more memory than there is")

    async def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            await self._stream.send(encoded(request) + b"\n")
            line = await self._line()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            raise await anyio.to_thread.run_sync(self.process.gone) from error
        try:
            if await is_crowded_message(line):
                raise ValueError("it holds too many values")
            answer = from_json(line, allow_inf_nan=False)
            if not isinstance(answer, dict):
                raise ValueError("it is no object")
        except ValueError as error:
            shown = line[:200].decode(errors="replace")
            raise _GarbageError(f"wrote what is no answer ({error}): {shown!r}") from error
        return answer  # pyright: ignore[reportUnknownVariableType]  # any JSON object

    async def _line(self) -> bytes:
        scanned = 0
        while (end := self._buffer.find(b"\n", scanned)) < 0:
            scanned = len(self._buffer)
            if scanned > ANSWER_BYTES:
                await self._condemn("wrote too long an answer")
                raise self.process.fault(f"wrote an answer of more than {ANSWER_BYTES:,} bytes")
            self._buffer += await self._stream.receive(1 << 18)
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def _require_alive(self, what: str) -> None:
        """Check that the process answers a ping on another connection; if it does not, end it for all sessions.

        Raises:
            TaskError: the process does not answer.
        """
        with suppress(_GarbageError), anyio.move_on_after(self.process.program.ping_seconds):
            async with connected(self.process) as other:
                await other._exchange({"do": "ping"})
                return
        await self._condemn(what)
        raise self.process.fault(what)

    async def _condemn(self, why: str) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.process.end, why)


def encoded(value: dict[str, Any]) -> bytes:
    """A value as JSON; half of a surrogate pair, which agents may write, becomes a question mark.

    Raises:
        RecursionError: it is nested too deeply.
    """
    try:
        return to_json(value)
    except PydanticSerializationError as error:
        if _TOO_DEEP in str(error):  # which Python's own encoder takes or not, by its version
            raise RecursionError(_TOO_DEEP) from error
        return json.dumps(value, ensure_ascii=False).encode(errors="replace")


@asynccontextmanager
async def connected(process: ForeignProcess) -> AsyncGenerator[ForeignSession]:
    """Open a session with a process within the block; the connection closes at the end.

    Raises:
        TaskError: the process is gone.
    """
    try:
        stream = await anyio.connect_unix(process.socket)
    except OSError as error:
        raise await anyio.to_thread.run_sync(process.gone) from error
    async with stream:
        yield ForeignSession(process, stream)
