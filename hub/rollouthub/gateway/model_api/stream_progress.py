"""What of an answer has been streamed, and what is left to send once the whole is known."""

import msgspec

from rollouthub.messages import ToolPiece
from rollouthub.protocols import ModelReply

MOST_LOOKED_INTO = 16 * 2**10
"""Characters of arguments that are read again with each piece."""


class SentTool:
    """One tool request of a streamed answer."""

    __slots__ = ("_held", "_out", "_size", "id", "index", "is_open", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | None = None
        self.name: str | None = None
        # Pieces, joined when they are wanted: an answer may have hundreds of thousands.
        self._out: list[str] = []
        """The arguments that have gone out."""
        self._held: list[str] = []
        """Those that have come in and not gone out."""
        self._size = 0
        self.is_open = False
        """Whether its id and name have gone out."""

    def take(self, piece: ToolPiece) -> None:
        """Note a piece; nothing goes out before its id and name are known."""
        self.id = self.id or piece.id
        self.name = self.name or piece.name
        self._held.append(piece.arguments)
        self._size += len(piece.arguments)

    def complete(self, arguments: str) -> None:
        """Note all of the arguments. Where something else was streamed, that stands: it is out."""
        out = "".join(self._out)
        if arguments.startswith(out):
            self._held = [arguments[len(out) :]]
            self._size = len(arguments)

    def let_go(self) -> str:
        """The arguments to send now."""
        held = "".join(self._held)
        self._held = []
        if held:
            self._out.append(held)
        return held

    @property
    def is_whole(self) -> bool:
        """Whether what has come in reads as JSON, so that no more is to come; of much, only the answer's end tells."""
        if self._size > MOST_LOOKED_INTO:
            return False
        try:
            msgspec.json.decode("".join((*self._out, *self._held)))
        except (ValueError, RecursionError):
            return False
        return True


def unsent(reply: ModelReply, text: str, reasoning: str) -> tuple[str, str]:
    """What `reply` says after the text and the reasoning that have gone out."""
    message = reply.message
    whole, thought = message.text, message.reasoning or ""
    return (
        whole[len(text) :] if whole.startswith(text) else "",
        thought[len(reasoning) :] if thought.startswith(reasoning) else "",
    )


def complete_tools(tools: dict[int, SentTool], reply: ModelReply) -> None:
    """Note the tool requests of the whole answer beside what has come of them."""
    for index, request in enumerate(reply.message.tool_requests):
        tool = tools.get(index)
        if tool is None:
            tool = tools[index] = SentTool(index)
        if not tool.is_open:
            tool.id, tool.name = request.id, request.name
        tool.complete(request.arguments)
