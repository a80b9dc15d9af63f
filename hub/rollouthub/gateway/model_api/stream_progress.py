"""Tracks which parts of an answer were streamed, and what remains to be sent once the whole answer is known."""

import msgspec

from rollouthub.generation import ModelReply
from rollouthub.messages import ToolPiece

MOST_LOOKED_INTO = 16 * 2**10
"""Most characters of arguments that are parsed again with each piece, to detect their end."""


class SentTool:
    """One tool request of a streamed answer."""

    __slots__ = ("_held", "_out", "_size", "id", "index", "is_open", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | None = None
        self.name: str | None = None
        # Pieces, joined when they are wanted: an answer may have hundreds of thousands.
        self._out: list[str] = []
        """Pieces of the arguments that were sent."""
        self._held: list[str] = []
        """Pieces of the arguments that were received and not sent yet."""
        self._size = 0
        self.is_open = False
        """Whether the tool request's id and name were sent."""

    def take(self, piece: ToolPiece) -> None:
        """Add a piece; nothing is sent before id and name are known."""
        self.id = self.id or piece.id
        self.name = self.name or piece.name
        self._held.append(piece.arguments)
        self._size += len(piece.arguments)

    def complete(self, arguments: str) -> None:
        """Set the whole arguments. If something different was streamed already, that is not changed."""
        out = "".join(self._out)
        if arguments.startswith(out):
            self._held = [arguments[len(out) :]]
            self._size = len(arguments)

    def let_go(self) -> str:
        """The arguments to send now; they count as sent."""
        held = "".join(self._held)
        self._held = []
        if held:
            self._out.append(held)
        return held

    @property
    def is_whole(self) -> bool:
        """Whether the arguments received so far are complete JSON; False for long ones, which only the end of the
        answer completes.
        """
        if self._size > MOST_LOOKED_INTO:
            return False
        try:
            msgspec.json.decode("".join((*self._out, *self._held)))
        except (ValueError, RecursionError):
            return False
        return True


def unsent(reply: ModelReply, text: str, reasoning: str) -> tuple[str, str]:
    """The text and reasoning of `reply` after the parts that were sent."""
    message = reply.message
    whole, thought = message.text, message.reasoning or ""
    return (
        whole[len(text) :] if whole.startswith(text) else "",
        thought[len(reasoning) :] if thought.startswith(reasoning) else "",
    )


def complete_tools(tools: dict[int, SentTool], reply: ModelReply) -> None:
    """Complete the streamed tool requests by those of the whole answer."""
    for index, request in enumerate(reply.message.tool_requests):
        tool = tools.get(index)
        if tool is None:
            tool = tools[index] = SentTool(index)
        if not tool.is_open:
            tool.id, tool.name = request.id, request.name
        tool.complete(request.arguments)
