"""Messages between agent and model: provider-neutral chat messages, and the pieces of a streamed one."""

import base64
import hashlib
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr

from rollouthub.errors import ModelError, TaskError
from rollouthub.values import Frozen

MOST_MEDIA_BYTES = 32 * 2**20
"""Most bytes of one picture, sound or file."""
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", b"", "image/png"),
    (b"\xff\xd8\xff", b"", "image/jpeg"),
    (b"GIF87a", b"", "image/gif"),
    (b"GIF89a", b"", "image/gif"),
    (b"RIFF", b"WEBP", "image/webp"),
    (b"RIFF", b"WAVE", "audio/wav"),
    (b"ID3", b"", "audio/mpeg"),
    (b"OggS", b"", "audio/ogg"),
    (b"fLaC", b"", "audio/flac"),
    (b"%PDF-", b"", "application/pdf"),
)
"""First bytes of a file, the bytes from offset 8 on, and the MIME type that both identify."""


class Text(Frozen):
    """A piece of text in a message."""

    type: Literal["text"] = "text"
    text: str


class Media(Frozen):
    """A picture, sound or file, by digest; its bytes are stored once in the run's `media/`.

    An object made with `Media.of` also has the content, which stays in this process: it is never serialised, and
    objects of the same digest and type are equal with or without it.
    """

    type: Literal["media"] = "media"
    digest: str
    """`sha256:` followed by 64 hex digits."""
    mime_type: str
    _content: bytes | Path | None = PrivateAttr(default=None)

    @classmethod
    def of(cls, source: bytes | Path, mime_type: str | None = None) -> "Media":
        """Media of these bytes, or of a file that is read again each time its bytes are needed.

        Without `mime_type` the type is recognised by the first bytes.

        Raises:
            ValueError: the content is empty, too large, or of no known type.
            OSError: the file cannot be read.
        """
        content = source if isinstance(source, bytes) else _read(source)
        if not 0 < len(content) <= MOST_MEDIA_BYTES:
            where = "" if isinstance(source, bytes) else f"{str(source)!r}: "
            raise ValueError(f"{where}{len(content):,} bytes; a picture has 1 to {MOST_MEDIA_BYTES:,}")
        mime_type = mime_type or media_type(content)
        if mime_type is None:
            where = "these bytes are" if isinstance(source, bytes) else f"{str(source)!r} is"
            raise ValueError(f"{where} no picture or sound of a known format; say which with mime_type")
        media = cls.named(content, mime_type)
        media._content = source
        return media

    @classmethod
    def named(cls, content: bytes, mime_type: str) -> "Media":
        """Media of any bytes that a tool or a client sent; neither size nor type is checked."""
        media = cls(digest=digest_of(content), mime_type=mime_type)
        media._content = content
        return media

    @property
    def is_file(self) -> bool:
        """Whether its bytes are read from a file each time they are needed."""
        return isinstance(self._content, Path)

    @property
    def held_bytes(self) -> int:
        """Bytes of this process's memory that its content takes; 0 for a file."""
        return len(self._content) if isinstance(self._content, bytes) else 0

    def read(self) -> bytes | None:
        """Its bytes; None if it has only a digest.

        Raises:
            TaskError: its file cannot be read, or has changed.
        """
        if not isinstance(self._content, Path):
            return self._content
        try:
            content = _read(self._content)
        except OSError as error:
            raise TaskError(f"the picture {str(self._content)!r} cannot be read: {error}", retryable=False) from error
        if digest_of(content) != self.digest:
            raise TaskError(f"the picture {str(self._content)!r} was changed since its task was read", retryable=False)
        return content

    def holding(self, content: bytes) -> "Media":
        """A copy with its bytes; the caller guarantees that they match the digest."""
        media = self.model_copy()
        media._content = content
        return media

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Media):
            return NotImplemented
        return (self.digest, self.mime_type) == (other.digest, other.mime_type)

    def __hash__(self) -> int:
        return hash((self.digest, self.mime_type))


def picture(source: bytes | Path, mime_type: str | None = None) -> Media:
    """A picture for a message: `Message(role="user", content=(Text(text="How many?"), picture(Path("a.png"))))`.

    Raises:
        ValueError: the picture is empty, too large, or of no known type.
        OSError: the file cannot be read.
    """
    return Media.of(source, mime_type)


def digest_of(content: bytes) -> str:
    """The SHA-256 of bytes: `sha256:` followed by 64 hex digits."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def media_type(content: bytes) -> str | None:
    """The MIME type recognised by the first bytes; None if unknown."""
    for beginning, after, mime_type in _BEGINNINGS:
        if content.startswith(beginning) and content[8:12].startswith(after):
            return mime_type
    return None


def data_url(content: bytes, mime_type: str | None = None) -> str:
    """Bytes as a `data:` URL; without `mime_type` the type is recognised by the first bytes."""
    kind = mime_type or media_type(content) or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _read(path: Path) -> bytes:
    # A pipe is not waited for: data sets come from elsewhere, and nobody may ever write to it.
    with open(path, "rb", opener=lambda name, _: os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{str(path)!r} is no regular file, but a pipe or a device")
        return file.read(MOST_MEDIA_BYTES + 1)


Part = Annotated[Text | Media, Field(discriminator="type")]


class ToolRequest(Frozen):
    """A tool call that the model asked for; `arguments` is the JSON text exactly as the model wrote it, valid or
    not.
    """

    id: str
    name: str
    arguments: str


def _is_none(value: object) -> bool:
    return value is None


class Message(Frozen):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | tuple[Part, ...] = ""
    reasoning: str | None = None
    """Thinking that a backend returns separately from the answer."""
    tool_requests: tuple[ToolRequest, ...] = ()
    tool_call_id: str | None = None
    """On a `tool` message: the id of the request that it answers."""
    items: str | None = Field(default=None, exclude_if=_is_none)
    """The answer as JSON of the backend's own items, where these hold more than the other fields, such as encrypted
    reasoning. They are sent back to the backend unchanged as long as the other fields are what the items say.
    """
    items_from: str | None = Field(default=None, exclude_if=_is_none)
    """Mark of the model and server that wrote the items; no other is sent them."""

    @property
    def without_items(self) -> "Message":
        """The message as the fields that every backend has."""
        return self.model_copy(update={"items": None, "items_from": None})

    @property
    def text(self) -> str:
        """The text alone, without media; parts are joined by newlines."""
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


def media_of(messages: Iterable[Message]) -> list[Media]:
    """The media in messages, in order; media that occur twice are listed twice."""
    spoken = (message.content for message in messages if not isinstance(message.content, str))
    return [part for content in spoken for part in content if isinstance(part, Media)]


def media_bytes(part: Media, media: Mapping[str, bytes]) -> bytes:
    """The bytes of a part: from `media` by digest, else the part's own.

    Raises:
        ModelError: neither has them.
    """
    content = media.get(part.digest)
    if content is None:
        content = part.read()
    if content is None:
        raise ModelError(f"the conversation names media {part.digest}, whose bytes are not at hand", retryable=False)
    return content


def holding(messages: Sequence[Message], media: Mapping[str, bytes]) -> tuple[Message, ...]:
    """Copies of the messages in which media have their bytes, as far as `media` gives them by digest."""
    return tuple(_holding(message, media) for message in messages)


def _holding(message: Message, media: Mapping[str, bytes]) -> Message:
    if isinstance(message.content, str):
        return message
    parts = tuple(
        part.holding(media[part.digest]) if isinstance(part, Media) and part.digest in media else part
        for part in message.content
    )
    return message.model_copy(update={"content": parts})


@dataclass(frozen=True, slots=True)
class ToolPiece:
    """A piece of a streamed tool request; its first piece has `id` and `name`."""

    index: int
    """Index of the tool request within the answer."""
    arguments: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed answer."""

    text: str = ""
    reasoning: str = ""
    tools: tuple[ToolPiece, ...] = ()


def cut_delta(delta: Delta, most: int) -> Iterator[Delta]:
    """Split a piece into pieces of at most `most` characters per text."""
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
    """Receives an answer in pieces. Once a piece was written, the model call cannot be retried."""

    __slots__ = ("_write", "is_left", "pieces", "said")

    def __init__(self, write: Callable[[Delta], Awaitable[None]]) -> None:
        self._write = write
        self.pieces = 0
        """Number of pieces written; each is at least one token."""
        self.said: list[Delta] = []
        """The pieces written."""
        self.is_left = False
        """Whether the reader has disconnected: further pieces are only recorded."""

    @property
    def has_begun(self) -> bool:
        """Whether a piece was written."""
        return self.pieces > 0

    async def write(self, delta: Delta) -> None:
        """Record a piece and pass it on."""
        self.pieces += 1
        self.said.append(delta)
        if not self.is_left:
            await self._write(delta)
