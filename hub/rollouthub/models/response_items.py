"""Messages and tools as items of the Responses API, as in its requests and recorded responses."""

from collections.abc import Callable, Sequence
from typing import Any

from mcp_types import Tool

from rollouthub.messages import Media, Message, data_url, media_of

Item = dict[str, Any]
Bytes = Callable[[str], bytes]
"""A function that returns a medium's bytes by its digest."""


def input_items(messages: Sequence[Message], media: Bytes | None = None) -> list[Item]:
    """Messages as the request's `input`; `media` returns the bytes of pictures and documents by digest."""
    return [item for place, message in enumerate(messages) for item in message_items(message, f"input-{place}", media)]


def tool_params(tools: Sequence[Tool]) -> list[Item]:
    """Tools as in a request of the Responses API."""
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
            "strict": False,
        }
        for tool in tools
    ]


def message_items(message: Message, name: str, media: Bytes | None) -> list[Item]:
    """One message as items; `name` is the prefix of the items' ids."""
    if message.role == "tool":
        result = {"type": "function_call_output", "call_id": message.tool_call_id or name, "output": message.text}
        shown = [] if media is None else [_picture(part, media) for part in media_of([message])]
        return [result, *([{"type": "message", "role": "user", "content": shown}] if shown else [])]
    if message.role != "assistant":
        return [{"type": "message", "role": message.role, "content": _content(message, media)}]
    items: list[Item] = []
    if message.reasoning:
        summary = [{"type": "summary_text", "text": message.reasoning}]
        items.append({"type": "reasoning", "id": f"rs-{name}", "summary": summary})
    if message.text or not message.tool_requests:
        items.append(words(name, message.text))
    for number, request in enumerate(message.tool_requests):
        items.append(
            {
                "type": "function_call",
                "id": f"fc-{name}-{number}",
                "call_id": request.id,
                "name": request.name,
                "arguments": request.arguments,
                "status": "completed",
            }
        )
    return items


def words(name: str, text: str) -> Item:
    """An assistant's text as a message item."""
    return {
        "type": "message",
        "id": f"msg-{name}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _content(message: Message, media: Bytes | None) -> str | list[Item]:
    if isinstance(message.content, str):
        return message.content
    return [
        _picture(part, media) if isinstance(part, Media) else {"type": "input_text", "text": part.text}
        for part in message.content
    ]


def _picture(part: Media, media: Bytes | None) -> Item:
    kind, _, subtype = part.mime_type.partition("/")
    if media is None or kind not in ("image", "application", "text"):
        # The bytes are in the run's media; NeMo-RL's tokens hold the picture's places already.
        return {"type": "input_text", "text": f"[{part.mime_type} {part.digest}]"}
    if kind != "image":
        file = data_url(media(part.digest), part.mime_type)
        return {"type": "input_file", "filename": f"file.{subtype}", "file_data": file}
    return {"type": "input_image", "detail": "auto", "image_url": data_url(media(part.digest), part.mime_type)}
