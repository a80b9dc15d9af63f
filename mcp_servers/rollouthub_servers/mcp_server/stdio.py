"""MCP over a process's stdin and stdout, with limits on both.

The SDK's own stdio client reads lines of any length, passes on HOME and USER, and lets the server write to the hub's
stderr.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterable
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from rollouthub.errors import ConfigError
from rollouthub.event_loop import is_crowded_message
from rollouthub_servers.mcp_server.launch import Launch
from rollouthub_servers.mcp_server.line_state import MESSAGE_BYTES, Wire
from rollouthub_servers.mcp_server.oversized_answers import error_instead
from rollouthub_servers.mcp_server.processes import has_ended, stop_tree

logger = logging.getLogger(__name__)

_FAREWELL_SECONDS = 1.0
_CLEAN_UP_SECONDS = 15.0

FromServer = MemoryObjectReceiveStream[SessionMessage | Exception]
ToServer = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def stdio(launch: Launch, wire: Wire) -> AsyncGenerator[tuple[FromServer, ToServer]]:
    """Start a server and yield the streams for a session; at the end it is ended with all processes it started.

    Raises:
        ConfigError: its program cannot be started.
    """
    try:
        process = await anyio.open_process(
            launch.argv, env=launch.env, cwd=launch.cwd, stdin=PIPE, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    except OSError as error:
        raise ConfigError(
            f"{launch.argv[0]!r} cannot be started: {error.strerror or error}; the command runs in an empty folder, "
            "so name a file beside env.toml as {folder}/FILE"
        ) from error
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    logged = anyio.Event()
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with anyio.create_task_group() as group:
            try:
                group.start_soon(_log, process.stderr, wire, logged)
                group.start_soon(_read, process, wire, to_session, logged)
                group.start_soon(_write, process, wire, from_session, to_session)
                yield from_server, to_server
            finally:
                wire.breaks("was stopped")
                with anyio.CancelScope(shield=True):
                    from_server.close()
                    to_server.close()
                    await _stop(process, launch)
                group.cancel_scope.cancel()
    finally:
        to_session.close()
        from_session.close()


async def _stop(process: Process, launch: Launch) -> None:
    alive = await stop_tree(process, launch.mark, launch.stop_seconds)
    if alive:
        logger.warning("%d processes of an MCP server could not be ended", alive)
    if launch.afterwards:
        with anyio.move_on_after(_CLEAN_UP_SECONDS):
            await anyio.run_process(launch.afterwards, env=launch.env, check=False)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            await stream.aclose()
    # A survivor that holds a pipe would keep the transport open; nothing public closes it.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if callable(close := getattr(transport, "close", None)):
        with suppress(PermissionError):
            close()


async def _log(stderr: ByteReceiveStream, wire: Wire, logged: anyio.Event) -> None:
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        async for chunk in stderr:
            wire.logs(chunk)
    logged.set()


async def _read(
    process: Process, wire: Wire, to_session: MemoryObjectSendStream[SessionMessage | Exception], logged: anyio.Event
) -> None:
    """Forward the server's messages to the session, until the connection breaks or the output ends."""
    assert process.stdout is not None
    async with to_session:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            if not await pass_messages(process.stdout, wire, to_session):
                return
            with anyio.move_on_after(_FAREWELL_SECONDS):
                await logged.wait()
            ended = await has_ended(process, _FAREWELL_SECONDS)
            wire.breaks(f"ended with exit code {process.returncode}" if ended else "closed its stdout")


async def pass_messages(
    chunks: AsyncIterable[bytes], wire: Wire, to_session: MemoryObjectSendStream[SessionMessage | Exception]
) -> bool:
    """Forward the messages in a server's output, one a line; False where the connection broke before its end."""
    buffer, scanned = bytearray(), 0
    async for chunk in chunks:
        buffer += chunk
        while (end := buffer.find(b"\n", scanned)) >= 0:
            line, scanned = bytes(buffer[:end]), 0
            del buffer[: end + 1]
            message = _parse(line, wire, is_crowded=await is_crowded_message(line))
            if message is not None and wire.broken is None:
                await to_session.send(message)
            if wire.broken is not None:
                return False
        scanned = len(buffer)
        if scanned > MESSAGE_BYTES:
            wire.breaks(f"sent a message of more than {MESSAGE_BYTES:,} bytes")
            return False
    return True


def _parse(line: bytes, wire: Wire, *, is_crowded: bool) -> SessionMessage | None:
    if not line.strip():
        return None
    try:
        message = error_instead(line) if is_crowded else jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        if wire.has_spoken:
            wire.breaks(
                f"wrote something to stdout that is no JSON-RPC message: {line[:200].decode(errors='replace')!r}"
            )
        else:
            wire.logs(line + b"\n")
            wire.is_flooded(len(line))
        return None
    if message is None:
        wire.is_flooded(len(line))
        return None
    return SessionMessage(message) if wire.hears(message, len(line)) else None


def line_of(message: SessionMessage) -> bytes:
    """A message as a server reads it."""
    return message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


async def _write(
    process: Process,
    wire: Wire,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
) -> None:
    assert process.stdin is not None
    try:
        async for message in from_session:
            await process.stdin.send(line_of(message))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        # It reads no more, but may live on: the session is told, or a call would wait for nothing.
        if not await has_ended(process, _FAREWELL_SECONDS):
            wire.breaks("closed its stdin")
            await to_session.aclose()
