"""One episode's connection to its server: held by one task, used by many, with a limit on every wait."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from anyio.abc import TaskStatus
from mcp import Client, MCPError
from mcp.client.session import ClientSession
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    CallToolResult,
    DiscoverResult,
    Implementation,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from rollouthub.errors import HubError, TaskError, ToolError
from rollouthub_servers.mcp_server.line_state import Wire

MAX_PAGES = 100
_ALIVE_SECONDS = 5.0
"""Seconds that a server may take for any answer after a call timed out, before it counts as hung."""
_FINISH_SECONDS = 25.0
_CLIENT = Implementation(name="rollouthub", version="1")

Streams = AbstractAsyncContextManager[Any]


class Connection:
    """An MCP connection to a server for one episode. It offers no sampling, no roots and no elicitation."""

    def __init__(
        self, streams: Callable[[], Streams], wire: Wire, era: DiscoverResult | str, call_seconds: float
    ) -> None:
        self.wire = wire
        self.era: DiscoverResult | str = era
        """Protocol era: `auto` to detect it, then the detected one (`legacy`, or the server's discovery result)."""
        self._streams, self._call_seconds = streams, call_seconds
        self._alive_seconds = min(_ALIVE_SECONDS, call_seconds)
        self._session: ClientSession | None = None
        self._leave, self._gone = anyio.Event(), anyio.Event()
        self._is_busy = False

    async def hold(self, *, task_status: TaskStatus[None]) -> None:
        """Connect, report that via `task_status`, and stay connected until `finish`.

        Raises:
            TaskError: the server did not start.
        """
        is_up = False
        try:
            async with self._client() as client:
                self._session = client.session
                self.era = client.session.discover_result or "legacy"
                is_up = True
                task_status.started()
                await self._leave.wait()
        except Exception as error:
            if not is_up:
                raise _first(error) if isinstance(_first(error), HubError) else self._fault(_first(error)) from error
            # The episode hears of it with its next call, or at the seal; here nobody could catch it.
            self.wire.breaks(f"broke: {_first(error)}")
        finally:
            self._session = None
            self._gone.set()

    def _client(self) -> Client:
        found = self.era if isinstance(self.era, DiscoverResult) else None
        return Client(
            self._streams(),
            mode=_version(found) if found is not None else str(self.era),
            prior_discover=found,
            cache=None,
            client_info=_CLIENT,
            message_handler=self._notice,
        )

    async def _notice(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.wire.has_changed_tools = True

    async def call(self, name: str, arguments: dict[str, Any]) -> CallToolResult:
        """Call a tool.

        Raises:
            ToolError: the server refuses the arguments, or took too long while it is still alive.
            TaskError: the server broke, hangs, or its answer is not a result.
        """
        session = self._live()
        try:
            with anyio.move_on_after(self._call_seconds):
                return await session.call_tool(name, arguments)
        except MCPError as error:
            if error.code == INVALID_PARAMS:
                raise ToolError(error.message) from error
            raise self._fault(error) from error
        except (ValidationError, RuntimeError, ExceptionGroup, OSError) as error:
            raise self._fault(_first(error)) from error
        except anyio.get_cancelled_exc_class():
            self._is_busy = True
            raise
        self._is_busy = True
        await self._require_alive(f"did not answer {name!r} within {self._call_seconds:g} s, nor anything else since")
        raise ToolError(f"{name} was stopped after {self._call_seconds:g} seconds without an answer.")

    async def list_tools(self) -> list[Tool]:
        """All tools, from all pages of the listing.

        Raises:
            TaskError: the server broke, or its listing does not end.
        """
        session = self._live()
        tools: list[Tool] = []
        cursor: str | None = None
        try:
            for _ in range(MAX_PAGES):
                page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
                tools += page.tools
                cursor = page.next_cursor
                if cursor is None:
                    return tools
        except (MCPError, ValidationError, RuntimeError, ExceptionGroup, OSError) as error:
            raise self._fault(_first(error)) from error
        raise TaskError(self.wire.describe(f"the server lists its tools on more than {MAX_PAGES} pages"))

    async def last_tools(self) -> list[Tool] | None:
        """The tools at the end of the episode; None if a call that was stopped may block the server.

        Raises:
            TaskError: the server broke or hangs.
        """
        if self._is_busy:
            self._live()
            return None
        with anyio.move_on_after(self._alive_seconds):
            return await self.list_tools()
        raise TaskError(self.wire.describe(f"the server did not list its tools within {self._alive_seconds:g} s"))

    async def finish(self) -> None:
        """Disconnect, and wait until the server has ended."""
        self._leave.set()
        with anyio.move_on_after(_FINISH_SECONDS):
            await self._gone.wait()

    async def _require_alive(self, what: str) -> None:
        with anyio.move_on_after(self._alive_seconds):
            await self.list_tools()
            self._is_busy = False
            return
        self.wire.breaks(what)
        raise TaskError(self.wire.describe(f"the server {what}"))

    def _live(self) -> ClientSession:
        if self._session is None or self.wire.broken is not None:
            raise TaskError(self.wire.describe(f"the server {self.wire.broken or 'is gone'}"))
        return self._session

    def _fault(self, error: Exception) -> TaskError:
        if self.wire.broken is not None:
            return TaskError(self.wire.describe(f"the server {self.wire.broken}"))
        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            return TaskError(self.wire.describe("the server closed the connection"))
        if isinstance(error, MCPError):
            return TaskError(self.wire.describe(f"the server answered with error {error.code}: {error.message:.500}"))
        if isinstance(error, ValidationError):
            return TaskError(self.wire.describe(f"the server's answer is not what MCP says: {error!s:.500}"))
        return TaskError(self.wire.describe(f"the server failed: {type(error).__name__}: {error!s:.500}"))


def _version(found: DiscoverResult) -> str:
    """The newest protocol version of the newer era that both sides support."""
    return next(version for version in reversed(MODERN_PROTOCOL_VERSIONS) if version in found.supported_versions)


def _first(error: BaseException) -> Exception:
    """The first error inside nested exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    assert isinstance(error, Exception)
    return error
