"""Turns of seats whose agents talk and wait through the tools `listen` and `reply`."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup
from mcp_types import CallToolResult

from rollouthub.errors import EpisodeError, ToolError
from rollouthub.messages import Message, assistant
from rollouthub.tools import shown_result, turn_result

MOST_WAITED = 40.0
"""Most seconds that one call waits for a seat's turn: many clients cancel a call after a minute."""
_SOON = 0.2
"""Seconds that `reply` waits for the turn of a seat which has never called `listen`."""
_YOURS = "It is your turn, and nothing more was said."
_WAIT = "It is not your turn yet. Call `listen` again to go on waiting."
_EARLY = "It is not your turn; call `listen` to wait for it."
TURNS_TOLD = (
    "You share this task with other players, and take turns with them. Call `listen` before anything else: it waits "
    "for your turn, and shows what the others said; where it says that it is not your turn yet, call it again. `reply` "
    "says something to them and waits for your next turn. Do not leave before the conversation or the episode is over: "
    "who is silent for long has left."
)
"""Text added to the task for agents that talk and wait through tools."""
_OVER = "The conversation is over."

Reply = Callable[[str, Sequence[Message]], Awaitable[Sequence[Message] | None]]


@dataclass(slots=True)
class _Waiting:
    """A seat's wait for its next turn, which goes on between its calls of `listen`."""

    come: anyio.Event = field(default_factory=anyio.Event)
    heard: Sequence[Message] | None = ()
    error: EpisodeError | None = None


class SeatTurns:
    """The turns of one episode's seats that call `listen` and `reply`.

    Each seat has at most one wait at a time, for which the environment is asked once, however often the client calls
    `listen`. A seat that waits may neither speak nor call tools, as in the hub's own loops.
    """

    def __init__(self, reply: Reply, tasks: TaskGroup, seconds: float) -> None:
        """`reply` is the episode's; one call waits at most `seconds`."""
        self._reply, self._tasks, self._seconds = reply, tasks, min(seconds, MOST_WAITED)
        self._waits: dict[str, _Waiting] = {}
        self._begun: set[str] = set()

    def begin(self, seat: str) -> None:
        """Note that the hub itself asks for this seat's turns."""
        self._begun.add(seat)

    async def listen(self, seat: str) -> CallToolResult:
        """The messages to a seat at its turn, or the result that it must keep waiting.

        Raises:
            EpisodeError: the environment broke.
        """
        if seat not in self._begun:
            self._ask(seat, ())
        waiting = self._waits.get(seat)
        if waiting is None:
            return turn_result(_YOURS, "had")
        with anyio.move_on_after(self._seconds):
            await waiting.come.wait()
        if not waiting.come.is_set():
            return turn_result(_WAIT, "waiting")
        if waiting.error is not None:
            raise waiting.error
        if waiting.heard is None:
            return turn_result(_OVER, "over")
        self._waits.pop(seat, None)
        return shown_result(waiting.heard) if waiting.heard else turn_result(_YOURS, "come")

    async def speak(self, seat: str, text: str) -> CallToolResult:
        """Send a seat's message at its turn, and listen.

        Raises:
            ToolError: it is not the seat's turn.
            EpisodeError: the environment broke.
        """
        if seat not in self._begun:
            self._ask(seat, ())
            with anyio.move_on_after(_SOON):
                await self._waits[seat].come.wait()
        self.need_turn(seat)
        self._ask(seat, (assistant(text),))
        return await self.listen(seat)

    def need_turn(self, seat: str) -> None:
        """Refuse an action of a seat that waits for its turn.

        Raises:
            ToolError: it is not the seat's turn, or the conversation is over.
        """
        waiting = self._waits.get(seat)
        if waiting is None:
            return
        if not waiting.come.is_set():
            raise ToolError(_EARLY)
        if waiting.heard is None:
            raise ToolError(_OVER)

    def _ask(self, seat: str, messages: Sequence[Message]) -> None:
        self._begun.add(seat)
        waiting = self._waits[seat] = _Waiting()
        self._tasks.start_soon(self._wait, seat, messages, waiting)

    async def _wait(self, seat: str, messages: Sequence[Message], waiting: _Waiting) -> None:
        try:
            waiting.heard = await self._reply(seat, messages)
        except EpisodeError as error:
            waiting.error = error
        finally:
            waiting.come.set()
