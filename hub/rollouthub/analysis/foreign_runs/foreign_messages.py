"""Chat messages of other tools as the hub's, tolerantly: a part that cannot be kept is named in its place."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from mcp_types import Tool

from rollouthub.messages import Message, Part, Text, ToolRequest, holding
from rollouthub.models.direct.chat_wire import WireMessage, from_wire
from rollouthub.text import one_line

Role = Literal["system", "user", "assistant", "tool"]
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "agent": "assistant",
    "tool": "tool",
    "function": "tool",
}
_WORDS = ("text", "content", "refusal", "reasoning", "thinking")


def as_object(value: Any) -> dict[str, Any]:
    """A value as an object; empty where it is none."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A value as a list; empty where it is none."""
    return cast(list[Any], value) if isinstance(value, list) else []


def as_text(value: Any) -> str | None:
    """A value as text, where it is a text that says something."""
    return value if isinstance(value, str) and value else None


def as_number(value: Any) -> float | None:
    """A value as a number, where it is one (no truth value, no text)."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def as_count(value: Any) -> int:
    """A value as a number of things; 0 where it is none."""
    number = as_number(value)
    return int(number) if number is not None and 0 <= number < 2**53 else 0


def chat_message(given: Any, media: dict[str, bytes]) -> Message:
    """One message in OpenAI's form or one of its variants; the bytes of its media are added to `media`.

    Raises:
        ValueError: it is no object, or its role is unknown.
    """
    if not isinstance(given, dict):
        raise ValueError(f"a message is {given!r:.60}, and no object")
    message = as_object(given)
    role = _ROLES.get(str(message.get("role")))
    if role is None:
        raise ValueError(f"a message has the unknown role {message.get('role')!r:.60}")
    content, thoughts = chat_content(role, message.get("content"), media)
    reasoning = as_text(message.get("reasoning_content")) or as_text(message.get("reasoning")) or thoughts
    asked = [*as_list(message.get("tool_calls"))]
    if isinstance(message.get("function_call"), dict):
        asked.append({"function": message["function_call"]})
    return Message(
        role=role,
        content=content,
        reasoning=reasoning,
        tool_requests=tuple(tool_request(call, place) for place, call in enumerate(asked)),
        tool_call_id=as_text(message.get("tool_call_id")) or as_text(message.get("id")) if role == "tool" else None,
    )


def chat_messages(given: Any, media: dict[str, bytes]) -> list[Message]:
    """A conversation; a plain text is a user message.

    Raises:
        ValueError: it is no list of messages.
    """
    if isinstance(given, str):
        return [Message(role="user", content=given)]
    if not isinstance(given, list):
        raise ValueError(f"a conversation is {given!r:.60}, and no list of messages")
    return [chat_message(each, media) for each in cast(list[Any], given)]


def tool_request(given: Any, place: int = 0) -> ToolRequest:
    """One tool call, with its function nested (OpenAI) or flat, and its arguments as text or as an object."""
    call = as_object(given)
    function = call.get("function")
    inner = as_object(function) if isinstance(function, dict) else call
    name = function if isinstance(function, str) else inner.get("name")
    arguments = inner.get("arguments", inner.get("args", inner.get("input")))
    if not isinstance(arguments, str):
        arguments = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    return ToolRequest(
        id=as_text(call.get("id")) or as_text(call.get("tool_call_id")) or f"call-{place}",
        name=str(name or ""),
        arguments=arguments,
    )


def chat_content(role: Role, content: Any, media: dict[str, bytes]) -> tuple[str | tuple[Part, ...], str | None]:
    """A message's content, and the thinking that stands in its parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else "" if content is None else _as_json(content), None
    parts: list[Part] = []
    thoughts: list[str] = []
    for given in cast(list[Any], content):
        part = as_object(given)
        kind = str(part.get("type") or "")
        words = next((part[key] for key in _WORDS if isinstance(part.get(key), str)), None)
        if isinstance(given, str):
            parts.append(Text(text=given))
        elif kind in ("reasoning", "thinking"):
            thoughts += [words] if words else []
        elif words is not None:
            parts.append(Text(text=words))
        elif kind not in ("tool_use", "tool_call", "functionCall"):  # told by the calls themselves
            parts.append(_shown(role, part, media))
    thinking = "\n".join(thoughts) or None
    if all(isinstance(part, Text) for part in parts):
        return "\n".join(part.text for part in parts if isinstance(part, Text)), thinking
    return tuple(parts), thinking


def _shown(role: Role, part: dict[str, Any], media: dict[str, bytes]) -> Part:
    """A picture, sound or document; where its bytes are not in the message, a line that names what was there."""
    kind = str(part.get("type") or "part")
    source = as_object(part.get("source"))
    url = part.get("image") if isinstance(part.get("image"), str) else None
    if isinstance(part.get("image_url"), str):
        url = part["image_url"]
    if source.get("data") and source.get("media_type"):
        url = f"data:{source['media_type']};base64,{source['data']}"
    wire = {"type": "image_url", "image_url": {"url": url}} if url else part
    found: dict[str, bytes] = {}
    try:
        made = holding([from_wire(WireMessage("user", [wire, {"type": "text", "text": ""}]), found)], found)[0]
    except (ValueError, TypeError, KeyError, AttributeError):
        where = url or as_object(part.get("image_url")).get("url") or source.get("path") or source.get("url") or ""
        named = "" if str(where).startswith("data:") else f" {one_line(str(where), 200)}"
        return Text(text=f"[{one_line(kind, 40)}{named}: not in the file]")
    media.update(found)
    return made.content[0] if isinstance(made.content, tuple) else Text(text=made.content)


def tool_definitions(given: Any) -> tuple[Tool, ...]:
    """Tools with their schemas, in OpenAI's form (nested or flat); what is no tool is left out."""
    found: dict[str, Tool] = {}
    for each in as_list(given):
        tool = as_object(as_object(each).get("function")) or as_object(each)
        name = as_text(tool.get("name"))
        schema = next((tool[key] for key in ("parameters", "input_schema", "inputSchema") if tool.get(key)), None)
        if name is not None:
            usable = as_object(schema) or {"type": "object"}
            found[name] = Tool(name=name, description=as_text(tool.get("description")), input_schema=usable)
    return tuple(found.values())


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def texts_of(messages: Sequence[Message]) -> str:
    """The words of messages in one text, for a digest."""
    return "\0".join(f"{message.role}\0{message.text}" for message in messages)


def kept(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that say something."""
    return {key: value for key, value in values.items() if value is not None}
