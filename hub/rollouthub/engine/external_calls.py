"""Tool calls that an external agent makes over MCP; each is recorded on the turn of the model that requested it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from mcp_types import CallToolResult, TextContent

from rollouthub.engine.recorder import OpenTurn
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.engine.tool_arguments import DEEPEST, TOO_DEEP, is_shallow
from rollouthub.errors import EpisodeStop
from rollouthub.hosting.local.toolbox import GET_TASK, LISTEN, REPLY
from rollouthub.messages import Message, ToolRequest, user
from rollouthub.rollout import Stop
from rollouthub.tools import text_result, turn_mark

MOST_RECORDED_BYTES = 64 * 2**20
"""Most bytes of arguments and results recorded for one seat; later calls are marked as a gap in the record."""
MOST_UNASKED = 256
"""Most calls recorded on a turn whose model did not request them; each further one becomes a turn, which counts
towards the turn limit.
"""
_LONGEST_NAME = 128
_TURNS_LOOKED_AT = 8
_SEPARATORS = "_.-/:"
"""Characters that clients put between a server's name and a tool's: `mcp__env__calculate`, `env_calculate`."""


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A tool call in progress."""

    name: str
    arguments: Mapping[str, Any]
    turn: OpenTurn | None
    """The turn to record the call on; None for reading the task again and for listening, which are not recorded."""
    request_id: str
    started: float


class OutsideCalls:
    """The tool calls of one seat. MCP does not say which of the model's requests a call belongs to, so calls are
    matched by name and arguments.
    """

    def __init__(self, seat: EpisodeSeat) -> None:
        self._seat = seat
        self._claimed: set[tuple[int, str]] = set()
        self._unasked: dict[int, int] = {}
        """Turn index → number of calls recorded on the turn that its model did not request."""
        self._count = self._bytes = 0

    def begin(self, name: str, arguments: Mapping[str, Any], size: int, encoded: bytes | None = None) -> OutsideCall:
        """Find the turn that requested a call; `size` is the size of its arguments in bytes, `encoded` their JSON, if
        at hand.

        A call that no turn requested (a model's code may make one) is recorded on the seat's latest turn, or, if no
        model of this run made that turn, as a turn of its own.

        Raises:
            EpisodeStop: a limit is reached, or the episode is sealed.
        """
        call = self._begin(name, arguments, size, encoded)
        self._seat.calls_in_flight += 1
        self._seat.is_waiting = True
        return call

    def _begin(self, name: str, arguments: Mapping[str, Any], size: int, encoded: bytes | None) -> OutsideCall:
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
        if name in (GET_TASK, LISTEN):
            return OutsideCall(name, arguments, None, "", started)
        self._count += 1
        request_id = f"mcp-{self._count}"
        turn = seat.recorder.latest_turn(seat.name)
        if turn is None or turn.reply is None or self._unasked.get(turn.index, 0) >= MOST_UNASKED:
            recorded = "{}"
            if self._bytes <= MOST_RECORDED_BYTES:
                recorded = _json(arguments) if encoded is None else encoded.decode()
            request = ToolRequest(id=request_id, name=name, arguments=recorded)
            turn = seat.say_next(Message(role="assistant", tool_requests=(request,)))
        else:
            self._unasked[turn.index] = self._unasked.get(turn.index, 0) + 1
        seat.show_tool_call()
        return OutsideCall(name, arguments, turn, request_id, started)

    def end(self, call: OutsideCall, result: CallToolResult) -> None:
        """Record the result of a call."""
        mark = turn_mark(result) if call.name in (REPLY, LISTEN) else None
        self._seat.calls_in_flight -= 1
        self._seat.is_waiting = self._seat.calls_in_flight > 0
        self._seat.acts += call.name != GET_TASK and mark != "had"
        if call.turn is None and call.name == LISTEN and mark is None and not result.is_error:
            self._seat.hear(user(_text_of(result)))
        if mark == "over":
            self._seat.is_over = True
        if self._bytes > MOST_RECORDED_BYTES:
            self._seat.recorder.lost.add("tool_calls")
        elif call.turn is not None:
            self._bytes += sum([len(block.text) for block in result.content if isinstance(block, TextContent)])
            self._seat.tool_calls.note(
                call.turn, call.request_id, call.name, dict(call.arguments), result, call.started
            )
            self._seat.recorder.tool_seconds += self._seat.recorder.now() - call.started
        self._seat.look()

    def lose(self, call: OutsideCall, error: BaseException) -> None:
        """Note that a call failed; a later call may match the same request of the model."""
        self._seat.calls_in_flight -= 1
        if isinstance(error, Exception):  # and not where its time ended
            self._seat.is_waiting = self._seat.calls_in_flight > 0
        if call.turn is not None:
            self._claimed.discard((call.turn.index, call.request_id))
            self._seat.tool_calls.lose(error)
        self._seat.look()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Make a call and record it.

        Raises:
            EpisodeStop: a limit is reached.
            EpisodeError: the environment broke.
        """
        if not is_shallow(arguments, DEEPEST):
            return text_result(TOO_DEEP, is_error=True)
        try:
            encoded = msgspec.json.encode(arguments)
        except (ValueError, TypeError):
            return text_result("the arguments cannot be written as JSON", is_error=True)
        call = self.begin(name, arguments, len(encoded), encoded)
        try:
            result = await self._seat.plane.call_tool(name, arguments)
            self.end(call, result)
        except BaseException as error:
            self.lose(call, error)
            raise
        return result

    def _asked(self, name: str, arguments: Mapping[str, Any]) -> tuple[OpenTurn, str] | None:
        """The unanswered request that a call matches: the latest one with the same arguments, else one of the latest
        turn with the same name.
        """
        by_name: tuple[OpenTurn, str] | None = None
        looked_at = 0
        for turn in reversed(self._seat.recorder.turns):
            if looked_at == _TURNS_LOOKED_AT:
                break
            if turn.agent != self._seat.name:
                continue
            looked_at += 1
            if turn.reply is None:  # no model requested anything
                continue
            for request in turn.response.tool_requests:
                if (turn.index, request.id) in self._claimed or not _is_called(request.name, name):
                    continue
                if _parsed(request.arguments) == arguments:
                    return turn, request.id
                if looked_at == 1 and by_name is None:
                    by_name = turn, request.id
        return by_name


def _is_called(requested: str, name: str) -> bool:
    """Whether the requested name is this tool's, possibly with a prefix that the client added."""
    if requested == name:
        return True
    return requested.endswith(name) and requested[-len(name) - 1] in _SEPARATORS


def _parsed(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments.strip() or "{}")
    except (ValueError, RecursionError):
        return None


def _text_of(result: CallToolResult) -> str:
    return "\n\n".join(block.text for block in result.content if isinstance(block, TextContent))


def _json(arguments: Mapping[str, Any]) -> str:
    try:
        return msgspec.json.encode(arguments).decode()
    except (ValueError, TypeError, RecursionError):
        return "{}"
