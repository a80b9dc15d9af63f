"""MCP servers of a task as further tools of its seat: programs in the agent's container, or servers beside it."""

import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
from mcp_types import CallToolResult, Tool

from rollouthub.errors import ConfigError, SandboxError, TaskError, ToolError
from rollouthub.event_loop import background_tasks
from rollouthub.sandbox import ByteStream, CommandNotStarted, Program, Sandbox, SandboxFileError
from rollouthub_servers.mcp_server.results import bounded
from rollouthub_servers.mcp_server.tool_list import MAX_TOOLS, RESERVED, PinnedTool, clean, model_name, pin_as
from rollouthub_servers.terminal.harbor.compose_values import filled
from rollouthub_servers.terminal.harbor.settings import TaskServer
from rollouthub_servers.terminal.health import NotBegun

if TYPE_CHECKING:
    from rollouthub_servers.mcp_server.connection import Connection, Streams
    from rollouthub_servers.mcp_server.line_state import Wire

START_SECONDS = 60.0
"""Most seconds until a server answers, its first start included."""
MOST_RESULT = 1_000_000
"""Most bytes of a tool's result."""
_LOOK_SECONDS = 0.1
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, SandboxError, OSError)


class TaskServers:
    """The connections to a task's servers in one step of an episode, and the tools that they offer."""

    def __init__(self, taken: Collection[str]) -> None:
        """`taken` are names that are other tools' already."""
        self._taken = {*taken, *RESERVED}
        self._tools: dict[str, tuple[Connection, PinnedTool]] = {}

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools as they are offered."""
        return [tool.definition for _, tool in self._tools.values()]

    def add(self, server: str, connection: "Connection", tools: Sequence[Tool]) -> None:
        """Offer a server's tools; one whose name is taken gets the server's name before its own.

        Raises:
            NotBegun: a tool cannot be offered.
        """
        if len(tools) + len(self._tools) > MAX_TOOLS:
            raise NotBegun(f"{_where(server)}: more than {MAX_TOOLS} tools")
        for tool in tools:
            name = model_name(tool.name)
            if name in self._taken:
                name = model_name(f"{server}_{tool.name}")
            if name in self._taken:
                raise NotBegun(f"{_where(server)}: two tools would be called {name!r}")
            self._taken.add(name)
            try:
                self._tools[name] = (connection, pin_as(clean(tool), name))
            except ConfigError as error:
                raise NotBegun(f"{_where(server)}: {error}") from error

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool.

        Raises:
            ToolError: the server refuses the arguments, or is broken, as the agent can break it.
        """
        connection, tool = self._tools[name]
        try:
            return bounded(await connection.call(tool.server_name, arguments), MOST_RESULT)
        except TaskError as error:
            raise ToolError(str(error)) from error


@asynccontextmanager
async def task_servers(
    servers: Sequence[TaskServer], sandbox: Sandbox, user: str | None, seconds: float, caller: Mapping[str, str]
) -> AsyncGenerator[TaskServers]:
    """Connect to a task's servers, for calls of at most `seconds`; those that are programs run as `user`.

    Raises:
        NotBegun: a server does not start, or its tools cannot be offered.
    """
    from rollouthub_servers.mcp_server.connection import Connection
    from rollouthub_servers.mcp_server.line_state import Wire

    found = TaskServers(("bash", "read_file", "write_file", "edit_file", "list_files"))
    connections: list[Connection] = []
    async with background_tasks() as tasks:
        try:
            for server in servers:
                wire = Wire()
                streams = _streams(server, sandbox, user, filled(server.headers, caller), wire)
                connection = Connection(lambda streams=streams: streams, wire, "auto", seconds)
                try:
                    with anyio.fail_after(START_SECONDS):
                        await tasks.start(connection.hold)
                        connections.append(connection)
                        found.add(server.name, connection, await connection.list_tools())
                except (TaskError, CommandNotStarted, TimeoutError) as error:
                    why = str(error) or f"no answer within {START_SECONDS:g} s"
                    raise NotBegun(wire.describe(f"{_where(server.name)}: {why}")) from error
            yield found
        finally:
            with anyio.CancelScope(shield=True):
                for connection in connections:
                    await connection.finish()


def _where(server: str) -> str:
    return f"[[environment.mcp_servers]] {server!r}"


def _streams(
    server: TaskServer, sandbox: Sandbox, user: str | None, headers: Mapping[str, str], wire: "Wire"
) -> "Streams":
    if server.transport == "stdio":
        command = ["/bin/sh", "-c", 'exec "$@"', "mcp", str(server.command), *server.args]
        return _stdio(sandbox, command, user, wire)
    return _http(server, sandbox, headers)


@asynccontextmanager
async def _stdio(sandbox: Sandbox, command: Sequence[str], user: str | None, wire: "Wire") -> AsyncGenerator[Any]:
    """Start a server in a sandbox, and yield the streams for a session."""
    from mcp.shared.message import SessionMessage

    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)

    async def read(program: Program) -> None:
        from rollouthub_servers.mcp_server.stdio import pass_messages

        async with to_session:
            with suppress(*_GONE):
                await pass_messages(_stdout(program, wire), wire, to_session)
            wire.breaks("ended")

    async def write(program: Program) -> None:
        from rollouthub_servers.mcp_server.stdio import line_of

        with suppress(*_GONE):
            async for message in from_session:
                await program.send(line_of(message))

    async with (
        sandbox.start(command, user=user, timeout_seconds=None) as program,
        anyio.create_task_group() as group,
    ):
        try:
            group.start_soon(read, program)
            group.start_soon(write, program)
            yield from_server, to_server
        finally:
            wire.breaks("was stopped")
            for stream in (from_server, to_server, from_session):
                stream.close()
            group.cancel_scope.cancel()


async def _stdout(program: Program, wire: "Wire") -> AsyncIterator[bytes]:
    async for side, data in program.output():
        if side == "stdout":
            yield data
        else:
            wire.logs(data)


@asynccontextmanager
async def _http(server: TaskServer, sandbox: Sandbox, headers: Mapping[str, str]) -> AsyncGenerator[Any]:
    """Connect to a server that listens in a sandbox's network, and yield the streams for a session."""
    from rollouthub_servers.mcp_server.http import http_with_sse, streamable_http

    async with _door(sandbox, server.address[1]) as socket:
        url = str(server.url)
        is_old = server.transport == "sse"
        opening = http_with_sse(url, headers, socket) if is_old else streamable_http(url, None, headers, socket)
        async with opening as streams:
            yield streams


@asynccontextmanager
async def _door(sandbox: Sandbox, port: int) -> AsyncGenerator[str]:
    """The path of a Unix socket, of this user alone, that leads to a port in a sandbox's network."""
    folder = Path(tempfile.mkdtemp(prefix="rollouthub-door-"))
    try:
        async with AsyncExitStack() as stack, background_tasks() as tasks:
            listener = await stack.enter_async_context(await anyio.create_unix_listener(folder / "socket"))
            ends_at = anyio.current_time() + START_SECONDS

            async def carry(client: anyio.abc.SocketStream) -> None:
                async with client:
                    with suppress(*_GONE, SandboxFileError):
                        await _join(client, await _connected(sandbox, port, ends_at))

            tasks.start_soon(listener.serve, carry)
            yield str(folder / "socket")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _connected(sandbox: Sandbox, port: int, ends_at: float) -> ByteStream:
    """A connection to a port; until the servers had their time to start, it is tried again."""
    while True:
        try:
            return await sandbox.connect(port)
        except SandboxFileError:
            if anyio.current_time() > ends_at:
                raise
            await anyio.sleep(_LOOK_SECONDS)


async def _join(client: anyio.abc.SocketStream, inside: ByteStream) -> None:
    async def outward() -> None:
        with suppress(*_GONE):
            async for data in client:
                await inside.send(data)
            await inside.send_eof()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(outward)
            while data := await inside.receive():
                await client.send(data)
            group.cancel_scope.cancel()
    finally:
        await inside.aclose()
