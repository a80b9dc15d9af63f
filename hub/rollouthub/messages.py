"""What a model reads and says: provider-neutral chat messages, and the pieces of one while it comes."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from rollouthub.frozen import Frozen


class Text(Frozen):
    """Words."""

    type: Literal["text"] = "text"
    text: str


class Media(Frozen):
    """A picture, sound or file, by digest; its bytes live once in the run's `media/`."""

    type: Literal["media"] = "media"
    digest: str
    """`sha256:` and 64 hex digits."""
    mime_type: str


Part = Annotated[Text | Media, Field(discriminator="type")]


class ToolRequest(Frozen):
    """A call the model asked for, exactly as it wrote it: `arguments` is its JSON text, well-formed or not."""

    id: str
    name: str
    arguments: str


class Message(Frozen):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | tuple[Part, ...] = ""
    reasoning: str | None = None
    """Thinking a backend returns apart from the answer."""
    tool_requests: tuple[ToolRequest, ...] = ()
    tool_call_id: str | None = None
    """On a `tool` message: the request it answers."""

    @property
    def text(self) -> str:
        """The words alone, parts joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


def system(text: str) -> Message:
    """A system message."""
    return Message(role="system", content=text)


def user(text: str) -> Message:
    """A user message."""
    return Message(role="user", content=text)


def assistant(text: str, *tool_requests: ToolRequest) -> Message:
    """An assistant message."""
    return Message(role="assistant", content=text, tool_requests=tool_requests)


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


def cut_delta(delta: Delta, most: int) -> Iterator[Delta]:
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
