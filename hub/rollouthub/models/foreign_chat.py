"""Chat messages of other software (OpenAI's format and its variants), converted to the hub's.

Structs rather than pydantic models: a file has a hundred thousand lines of them.
"""

from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from rollouthub.messages import Message, ToolRequest

_ROLES: dict[str, Literal["system", "user", "assistant", "tool"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
SUBMIT = "submit"


class ChatFunction(Struct, gc=False):
    """The function of a tool call; some software writes the arguments as an object instead of JSON text."""

    name: str
    arguments: Any = "{}"


class ChatToolCall(Struct, gc=False):
    """One tool call of an assistant message."""

    function: ChatFunction
    id: str | None = None


class ChatMessage(Struct, gc=False):
    """One message of a conversation."""

    role: str
    content: str | list[Any] | None = None
    tool_calls: list[ChatToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None


class _Submit(Struct, forbid_unknown_fields=True):
    """The arguments of the tool `submit`."""

    answer: str


_decode_submit = msgspec.json.Decoder(_Submit).decode


def read_chat(messages: list[ChatMessage]) -> tuple[Message, ...]:
    """The conversation as the hub's messages. Of a content in parts only the text is kept.

    Raises:
        ValueError: a message has an unknown role; says which.
    """
    return tuple(_message(place, message) for place, message in enumerate(messages))


def _message(place: int, message: ChatMessage) -> Message:
    role = _ROLES.get(message.role)
    if role is None:
        raise ValueError(f"messages[{place}] has the unknown role {message.role!r}; there are: {', '.join(_ROLES)}")
    reasoning = message.reasoning_content
    if reasoning is None and isinstance(message.reasoning, str):
        reasoning = message.reasoning
    calls = tuple(
        ToolRequest(
            id=call.id or f"call-{place}-{number}",
            name=call.function.name,
            arguments=_arguments(call.function.arguments),
        )
        for number, call in enumerate(message.tool_calls or ())
    )
    return Message(
        role=role,
        content=_text(message.content),
        reasoning=reasoning,
        tool_requests=calls,
        tool_call_id=message.tool_call_id,
    )


def _text(content: str | list[Any] | None) -> str:
    if not isinstance(content, list):
        return content or ""
    words: list[str] = []
    for part in content:
        text: object = cast(dict[str, object], part).get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            words.append(text)
    return "\n".join(words)


def _arguments(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def submitted(transcript: tuple[Message, ...]) -> str | None:
    """The answer that a conversation submits: that of its first well-formed `submit` call, which ends an episode;
    None without one.
    """
    for message in transcript:
        for request in message.tool_requests:
            if request.name == SUBMIT:
                try:
                    return _decode_submit(request.arguments).answer
                except (msgspec.DecodeError, UnicodeEncodeError):
                    continue
    return None
