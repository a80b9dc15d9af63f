"""A client for a seat's MCP endpoint: MCP 2026-07-28, one POST per tool call.

Written without the SDK's client, which costs 1 to 2 ms of CPU per call; this code runs for every tool call.
The protocol: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from mcp_types import CallToolResult, Tool
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json
from yarl import URL

from rollouthub.errors import invalid_fields
from rollouthub.event_loop import MOST_VALUES, is_crowded_message
from rollouthub.hosting.client.server_connection import BLAME_SECONDS, ServerConnection
from rollouthub.hosting.control_wire import OpenedSeat
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.local.toolbox import REPLY, SUBMIT
from rollouthub.http.server_events import EventReader
from rollouthub.limits import Deadlines
from rollouthub.messages import Message
from rollouthub.tools import is_last, text_result

PROTOCOL_VERSION = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "rollouthub", "version": "1"},
}
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": PROTOCOL_VERSION,
    "Mcp-Method": "tools/call",
}


class _Response(msgspec.Struct):
    """A JSON-RPC response; its result is decoded later, by the model of the expected result."""

    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(_Response)

_REFUSED = {
    413: "The arguments are larger than the environment takes, or hold more values.",
    429: "Too many calls at once; make fewer.",
}
"""HTTP statuses caused by the caller and not by a fault of the server, with the text that the model is shown."""

_CROWDED = f"The result holds more than {MOST_VALUES:,} values; ask for less at a time."


@dataclass(slots=True)
class SealFlag:
    """Whether the episode is sealed; shared by an episode and its seats."""

    is_set: bool = False


class RemotePlane:
    """One seat of an episode that another process hosts."""

    def __init__(
        self,
        seat: OpenedSeat,
        tools: tuple[Tool, ...],
        connection: ServerConnection,
        deadlines: Deadlines,
        sealed: SealFlag,
        reply: Callable[[str, Sequence[Message]], Awaitable[Sequence[Message] | None]],
    ) -> None:
        self.token, self.messages, self.tools = seat.token, seat.messages, tools
        self.task_tools = frozenset(tool.name for tool in seat.task_tools)
        self.url = seat.url
        """The seat's MCP endpoint."""
        self._name, self._url = seat.name, URL(seat.url)
        connection.check_seat(self._url)
        self._known = {tool.name for tool in tools}
        self._connection, self._deadlines = connection, deadlines
        self._sealed, self._reply = sealed, reply

    def offer(self, tools: Sequence[Tool]) -> None:
        """Replace the tools that only this task has."""
        own = [tool for tool in self.tools if tool.name not in self.task_tools]
        self.tools, self.task_tools = (*own, *tools), frozenset(tool.name for tool in tools)
        self._known = {tool.name for tool in self.tools}

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call one of the seat's tools.

        Raises:
            ServerFault: the server is gone, does not answer, or does not speak MCP.
        """
        if self._sealed.is_set:
            return text_result(CLOSED, is_error=True)
        if name not in self._known:
            # Not sent: what a model makes up may not even be fit for a header.
            return text_result(f"unknown tool {name!r}; there are: {', '.join(self._known_names())}", is_error=True)
        params = {"name": name, "arguments": dict(arguments), "_meta": _META}
        try:
            body = to_json({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        except PydanticSerializationError as error:  # lone surrogates, endless nesting
            return text_result(f"the arguments are not JSON: {error}", is_error=True)
        result = await self._exchange(body, name)
        if (name == SUBMIT and not result.is_error) or is_last(result):
            self._sealed.is_set = True
        return result

    def note_submitted(self) -> None:
        """Note that another client of this seat has submitted the answer, which seals the episode."""
        self._sealed.is_set = True

    def _known_names(self) -> list[str]:
        return [tool.name for tool in self.tools] or ["none"]

    async def _exchange(self, body: bytes, name: str) -> CallToolResult:
        what = f"tools/call {name}"
        deadlines, connection = self._deadlines, self._connection
        # To submit is to seal: calls in flight end first, then the world is sealed.
        seconds = deadlines.tool_call + (2 * deadlines.close + BLAME_SECONDS if name == SUBMIT else 0)
        status, raw, _ = await connection.post_to_agents(
            self._url, body, {**_HEADERS, "Mcp-Name": name}, seconds=seconds, what=what
        )
        if status in _REFUSED:
            return text_result(_REFUSED[status], is_error=True)
        if await is_crowded_message(raw):
            return text_result(_CROWDED, is_error=True)
        try:
            response = _decoder.decode(raw) if raw[:1] == b"{" else _from_events(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise connection.fault(f"answered {what} (HTTP {status}) with no JSON: {error}") from None
        result = bytes(response.result)
        if not result:
            message = (response.error or {}).get("message", raw[:200].decode(errors="replace"))
            raise connection.fault(f"refused {what} (HTTP {status}): {message}")
        try:
            return _unmarked(CallToolResult.model_validate_json(result))
        except ValidationError as error:
            raise connection.fault(f"answered {what} with no tool result: {invalid_fields(error)}") from None

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages, or None when the conversation is over."""
        if self._sealed.is_set or REPLY not in self._known:  # a user is there for every client, or for none
            return None
        return await self._reply(self._name, messages)


def _unmarked(result: CallToolResult) -> CallToolResult:
    """The result without the metadata that the protocol itself adds."""
    if result.meta is not None:
        kept = {key: value for key, value in result.meta.items() if not key.startswith("io.modelcontextprotocol/")}
        result.meta = cast(Any, kept) or None
    return result


def _from_events(raw: bytes) -> _Response:
    """The response among server-sent events: the last event with our request's id."""
    response = _Response()
    for data in EventReader().whole(raw):
        candidate = _decoder.decode(data)
        if candidate.id == 1:
            response = candidate
    if response.id is None:
        raise msgspec.DecodeError("neither a JSON object nor events")
    return response
