"""What of an answer has been streamed, and what is left to send once the whole is known."""

import msgspec

from envhub.protocols import ModelReply
from envhub.streaming import ToolPiece


class SentTool:
    """One tool request of a streamed answer."""

    __slots__ = ("arguments", "held", "id", "index", "is_open", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id: str | None = None
        self.name: str | None = None
        self.arguments = ""
        """What has gone out of them."""
        self.held = ""
        """What has come in and not gone out."""
        self.is_open = False
        """Whether its id and name have gone out."""

    def take(self, piece: ToolPiece) -> None:
        """Note a piece; nothing goes out before its id and name are known."""
        self.id = self.id or piece.id
        self.name = self.name or piece.name
        self.held += piece.arguments

    def complete(self, arguments: str) -> None:
        """Note all of the arguments. Where something else was streamed, that stands: it is out."""
        if arguments.startswith(self.arguments):
            self.held = arguments[len(self.arguments) :]

    def let_go(self) -> str:
        """The arguments to send now."""
        held, self.held = self.held, ""
        self.arguments += held
        return held

    @property
    def is_whole(self) -> bool:
        """Whether what has come in reads as JSON, so that no more is to come."""
        try:
            msgspec.json.decode(self.arguments + self.held)
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
