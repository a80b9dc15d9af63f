"""A model's answer while it comes: pieces for whoever shows it, before the whole is there to record."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass


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
