"""Tool calls that come over MCP from an agent outside: each is recorded on the turn of the model that asked for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from mcp_types import CallToolResult, TextContent

from rollouthub.engine.recorder import OpenTurn
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.engine.tool_arguments import DEEPEST, TOO_DEEP, is_shallow
from rollouthub.errors import EpisodeStop
from rollouthub.hosting.local.toolbox import GET_TASK
from rollouthub.messages import Message, ToolRequest
from rollouthub.rollout import Stop
from rollouthub.tools import text_result

MOST_RECORDED_BYTES = 64 * 2**20
"""Arguments and results of one seat's calls; what comes later is a gap in the record."""
MOST_UNASKED = 256
"""Calls that lie on one turn of a model without its asking; a further one is a turn of its own, and counts."""
_LONGEST_NAME = 128
_TURNS_LOOKED_AT = 8
_SEPARATORS = "_.-/:"
"""What clients put between a server's name and a tool's: `mcp__env__calculate`, `env_calculate`."""


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A call on its way."""

    name: str
    arguments: Mapping[str, Any]
    turn: OpenTurn | None
    """None for what is not worth a record: the task, read again."""
    request_id: str
    started: float


class OutsideCalls:
    """The calls of one seat. MCP does not say which of a model's requests a call answers: name and arguments tell."""

    def __init__(self, seat: EpisodeSeat) -> None:
        self._seat = seat
        self._claimed: set[tuple[int, str]] = set()
        self._unasked: dict[int, int] = {}
        """Calls by the turn they lie on, though it did not ask for them."""
        self._count = self._bytes = 0

    def begin(self, name: str, arguments: Mapping[str, Any], size: int) -> OutsideCall:
        """Find the turn that asked for a call, whose arguments have so many bytes.

        A call that no request asked for lies on the latest turn, as calls do that a model's code makes; where no model
        of this run spoke, it is a turn of its own.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
        """
        seat = self._seat
        if seat.reached not in (None, Stop.CONTEXT_LIMIT):
            raise EpisodeStop(seat.reached)
        started = seat.recorder.now()
        self._bytes += size
        name = name[:_LONGEST_NAME]
        found = self._asked(name, arguments)
        if found is not None:
            turn, request_id = found
            self._claimed.add((turn.index, request_id))
            seat.show_tool_call()
            return OutsideCall(name, arguments, turn, request_id, started)
        if name == GET_TASK:
            return OutsideCall(name, arguments, None, "", started)
        self._count += 1
        request_id = f"mcp-{self._count}"
        turn = seat.recorder.latest_turn(seat.name)
        if turn is None or turn.is_said or self._unasked.get(turn.index, 0) >= MOST_UNASKED:
            told = _json(arguments) if self._bytes <= MOST_RECORDED_BYTES else "{}"
            request = ToolRequest(id=request_id, name=name, arguments=told)
            turn = seat.say_next(Message(role="assistant", tool_requests=(request,)))
        else:
            self._unasked[turn.index] = self._unasked.get(turn.index, 0) + 1
        seat.show_tool_call()
        return OutsideCall(name, arguments, turn, request_id, started)

    def end(self, call: OutsideCall, result: CallToolResult) -> None:
        """Record what a call gave."""
        if self._bytes > MOST_RECORDED_BYTES:
            self._seat.recorder.lost.add("tool_calls")
        elif call.turn is not None:
            self._bytes += sum(len(block.text) for block in result.content if isinstance(block, TextContent))
            self._seat.note_call(call.turn, call.request_id, call.name, dict(call.arguments), result, call.started)
            self._seat.recorder.tool_seconds += self._seat.recorder.now() - call.started
        self._seat.look()

    def lose(self, call: OutsideCall, error: BaseException) -> None:
        """Note that a call came to nothing; the model's request may be tried again."""
        if call.turn is not None:
            self._claimed.discard((call.turn.index, call.request_id))
            self._seat.lose_call(error)
        self._seat.look()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Make a call and record it.

        Raises:
            EpisodeStop: a limit is reached.
            EpisodeError: the world broke.
        """
        if not is_shallow(arguments, DEEPEST):
            return text_result(TOO_DEEP, is_error=True)
        try:
            size = len(msgspec.json.encode(arguments))
        except (ValueError, TypeError):
            return text_result("the arguments cannot be written as JSON", is_error=True)
        call = self.begin(name, arguments, size)
        try:
            result = await self._seat.plane.call_tool(name, arguments)
            self.end(call, result)
        except BaseException as error:
            self.lose(call, error)
            raise
        return result

    def _asked(self, name: str, arguments: Mapping[str, Any]) -> tuple[OpenTurn, str] | None:
        """The open request for this call: the latest of the same arguments, else the latest turn's of the same name."""
        by_name: tuple[OpenTurn, str] | None = None
        looked_at = 0
        for turn in reversed(self._seat.recorder.turns):
            if looked_at == _TURNS_LOOKED_AT:
                break
            if turn.agent != self._seat.name:
                continue
            for request in () if turn.is_said else turn.response.tool_requests:
                if (turn.index, request.id) in self._claimed or not _is_called(request.name, name):
                    continue
                if _parsed(request.arguments) == arguments:
                    return turn, request.id
                if looked_at == 0 and by_name is None:
                    by_name = turn, request.id
            looked_at += 1
        return by_name


def _is_called(requested: str, name: str) -> bool:
    """Whether a model that was shown a tool under a longer name asked for this one."""
    if requested == name:
        return True
    return requested.endswith(name) and requested[-len(name) - 1] in _SEPARATORS


def _parsed(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments.strip() or "{}")
    except (ValueError, RecursionError):
        return None


def _json(arguments: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(arguments).decode()
    except (ValueError, TypeError, RecursionError):
        return "{}"
