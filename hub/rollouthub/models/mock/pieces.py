"""Splits a mock model's answer into the pieces of a stream."""

import re
from collections.abc import Iterator

from rollouthub.messages import Delta, Message, ToolPiece

_WORD = re.compile(r"\s*\S+\s*|\s+")
_ARGUMENTS = 16
"""Characters of a tool call's arguments in one piece."""


def pieces(message: Message) -> Iterator[Delta]:
    """The pieces of a message: reasoning and text word by word, then each tool call: its name, and its arguments bit
    by bit.
    """
    for word in _WORD.findall(message.reasoning or ""):
        yield Delta(reasoning=word)
    for word in _WORD.findall(message.text):
        yield Delta(text=word)
    for index, request in enumerate(message.tool_requests):
        yield Delta(tools=(ToolPiece(index, id=request.id, name=request.name),))
        for start in range(0, len(request.arguments), _ARGUMENTS):
            yield Delta(tools=(ToolPiece(index, request.arguments[start : start + _ARGUMENTS]),))
