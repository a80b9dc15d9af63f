"""Messages between the hub and the library: an allow-list of what is shown, and all that an agent said."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from rollouthub.errors import TaskError
from rollouthub.messages import Media, Message, Text, ToolRequest

_PICTURE = "data:"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str | None = None
    url: str | None = None


class ShownCall(BaseModel):
    """A call in a conversation that the environment begins with."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    arguments: str


class ShownMessage(BaseModel):
    """A message as the driver gives it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: str
    content: str | list[_Part]
    tool_calls: list[ShownCall] = []
    tool_call_id: str | None = None

    def as_message(self) -> Message:
        """The same message of the hub's.

        Raises:
            TaskError: it is of no role, or has a picture that is none.
        """
        role = self.role if self.role in ("system", "user", "assistant", "tool") else "user"
        calls = tuple(ToolRequest(id=each.id, name=each.name, arguments=each.arguments) for each in self.tool_calls)
        content = self.content if isinstance(self.content, str) else tuple(map(_part, self.content))
        call_id = self.tool_call_id if role == "tool" else None
        return Message(role=role, content=content, tool_requests=calls, tool_call_id=call_id)


class ShownTool(BaseModel):
    """A tool as the driver gives it."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue]


class Seen(BaseModel):
    """What a rollout shows after each thing that the agent said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    messages: list[ShownMessage]
    tools: list[ShownTool] = []
    is_over: bool


def _part(part: _Part) -> Text | Media:
    if part.url is None:
        return Text(text=part.text or "")
    head, _, body = part.url.partition(";base64,")
    if not head.startswith(_PICTURE) or not body:
        return Text(text=f"[a picture at {part.url[:200]}]")
    try:
        return Media.named(base64.b64decode(body, validate=True), head.removeprefix(_PICTURE) or "image/png")
    except (binascii.Error, ValueError) as error:
        raise TaskError("a message has a picture that is no base64", retryable=False) from error


HARMLESS = ("", "I do not know.")
"""Answers that code must take: where it fails at one of them alone, it fails at what is said."""


def said_of(message: Message) -> dict[str, Any]:
    """What an agent said, as the driver takes it."""
    calls = [{"id": each.id, "name": each.name, "arguments": each.arguments} for each in message.tool_requests]
    return {"content": message.text, "tool_calls": calls, "reasoning_content": message.reasoning}


def all_said(transcript: Sequence[Message], hidden: frozenset[str]) -> list[dict[str, Any]]:
    """What an agent said in a transcript; calls of the hub's own tools (`hidden`) are no part of it."""
    found: list[dict[str, Any]] = []
    for message in transcript:
        if message.role != "assistant":
            continue
        kept = tuple(each for each in message.tool_requests if each.name not in hidden)
        if message.tool_requests and not kept and not message.text:
            continue
        found.append(said_of(message.model_copy(update={"tool_requests": kept})))
    return found
