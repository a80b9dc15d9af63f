"""The tool calls of one seat: run concurrently, timed and recorded."""

from collections.abc import Sequence
from typing import Any

import anyio
from mcp_types import CallToolResult, Tool

from rollouthub.engine.recorder import OpenTurn, Recorder
from rollouthub.engine.tool_arguments import arguments_of, long_arguments_of
from rollouthub.engine.tool_results import recorded_result
from rollouthub.errors import AgentError, EpisodeError
from rollouthub.event_loop import LARGE_BYTES
from rollouthub.hosting.local.toolbox import LOOP_TOOLS
from rollouthub.messages import Message, Part, ToolRequest
from rollouthub.protocols import AgentPlane
from rollouthub.rollout import ToolCall


class SeatToolCalls:
    """Calls a seat's tools and writes each call, with its result, to the turn that asked for it."""

    def __init__(self, seat: str, plane: AgentPlane, recorder: Recorder) -> None:
        self.fault: EpisodeError | None = None
        """The error of the environment, even if the agent caught it; None if nothing broke."""
        self._seat, self._plane, self._recorder = seat, plane, recorder
        self._shown: tuple[tuple[Tool, ...], tuple[Tool, ...]] = (), ()
        """The seat's tools when last read, and those of them to show a model."""

    @property
    def shown(self) -> tuple[Tool, ...]:
        """The tools to show a model; the same tuple until the seat's tools change."""
        offered = self._plane.tools
        if offered is not self._shown[0]:
            self._shown = offered, tuple(tool for tool in offered if tool.name not in LOOP_TOOLS)
        return self._shown[1]

    async def run(self, requests: Sequence[ToolRequest]) -> list[Message]:
        """Run tool calls concurrently; returns the messages that answer them, in order.

        Raises:
            AgentError: the seat has made no turn yet.
            EpisodeError: the environment broke.
        """
        recorder = self._recorder
        started = recorder.now()
        try:
            if len(requests) == 1:
                return [await self._call(requests[0])]
            answers: dict[int, Message] = {}

            async def call(place: int) -> None:
                answers[place] = await self._call(requests[place])

            async with anyio.create_task_group() as calls:
                for place in range(len(requests)):
                    calls.start_soon(call, place)
            return [answers[place] for place in sorted(answers)]
        finally:
            recorder.tool_seconds += recorder.now() - started

    async def _call(self, request: ToolRequest) -> Message:
        recorder = self._recorder
        turn = recorder.turn_of(self._seat, request.id)
        if turn is None:
            raise AgentError(f"the agent called {request.name!r} before any turn; say() or generate() first")
        started = recorder.now()
        try:
            is_long = len(request.arguments) > LARGE_BYTES
            arguments, result = await long_arguments_of(request) if is_long else arguments_of(request)
            if result is None:
                result = await self._plane.call_tool(request.name, arguments)
            content = self.note(turn, request.id, request.name, arguments, result, started)
        except BaseException as error:
            self.lose(error)
            raise
        return Message(role="tool", content=content, tool_call_id=request.id)

    def lose(self, error: BaseException) -> None:
        """Note that a call left no record, and its error."""
        self._recorder.lost.add("tool_calls")
        if isinstance(error, EpisodeError):
            self.fault = error

    def note(
        self, turn: OpenTurn, call_id: str, name: str, arguments: Any, result: CallToolResult, started: float
    ) -> str | tuple[Part, ...]:
        """Record a completed call; returns its result as message content."""
        content, size, kept = recorded_result(result, self._recorder.media)
        turn.tool_calls.append(
            ToolCall(
                id=call_id,
                name=name,
                arguments=arguments,
                result=kept,
                started=started,
                seconds=self._recorder.now() - started,
                bytes=size,
            )
        )
        turn.results[call_id] = content
        return content
