"""A mock model's answer in the pieces in which it is streamed."""

import re
from collections.abc import Iterator

from rollouthub.messages import Delta, Message, ToolPiece

_WORD = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENTS = 16
"""Characters of a tool request's arguments in one piece."""


def pieces(message: Message) -> Iterator[Delta]:
    """Thoughts and words one by one, then each tool request: its name, and its arguments bit by bit."""
    for word in _WORD.findall(message.reasoning or ""):
        yield Delta(reasoning=word)
    for word in _WORD.findall(message.text):
        yield Delta(text=word)
    for index, request in enumerate(message.tool_requests):
        yield Delta(tools=(ToolPiece(index, id=request.id, name=request.name),))
        for start in range(0, len(request.arguments), _ARGUMENTS):
            yield Delta(tools=(ToolPiece(index, request.arguments[start : start + _ARGUMENTS]),))
