"""What a model reads and says: provider-neutral chat messages."""

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
