"""A model's answer while it comes: pieces for whoever shows it, before the whole is there to record."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ToolPiece:
    """A piece of a tool request; `id` and `name` come with its first piece."""

    index: int
    """Which of the answer's tool requests."""
    arguments: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer."""

    text: str = ""
    reasoning: str = ""
    tools: tuple[ToolPiece, ...] = ()


def cut(delta: Delta, most: int) -> Iterator[Delta]:
    """The same piece in shorter ones, each of so many characters at most of whatever it has."""
    lengths = (len(delta.text), len(delta.reasoning), *(len(tool.arguments) for tool in delta.tools))
    if max(lengths) <= most:
        yield delta
        return
    for start in range(0, max(lengths), most):
        end = start + most
        tools = tuple(
            replace(tool, arguments=tool.arguments[start:end])
            for tool in delta.tools
            if start == 0 or start < len(tool.arguments)
        )
        yield Delta(delta.text[start:end], delta.reasoning[start:end], tools)


class ReplyStream:
    """Where an answer goes while it comes. What has begun cannot be tried again: its pieces are out."""

    __slots__ = ("_write", "is_left", "pieces", "said")

    def __init__(self, write: Callable[[Delta], Awaitable[None]]) -> None:
        self._write = write
        self.pieces = 0
        """How many were handed on; each is a token or more."""
        self.said: list[Delta] = []
        """What they were."""
        self.is_left = False
        """Whether nobody reads any more: further pieces are only noted."""

    @property
    def has_begun(self) -> bool:
        """Whether any were."""
        return self.pieces > 0

    async def write(self, delta: Delta) -> None:
        """Hand on a piece."""
        self.pieces += 1
        self.said.append(delta)
        if not self.is_left:
            await self._write(delta)
