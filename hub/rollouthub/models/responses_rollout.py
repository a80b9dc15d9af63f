"""Rollouts recorded by NeMo Gym in the format of the Responses API: items as messages, and task ids from a hash of
the input.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from rollouthub.messages import Message, Part, ToolRequest, holding
from rollouthub.models.direct.chat_wire import WireMessage, from_wire

ROW = "row-"
"""Prefix of the id of a task that is identified only by its input."""
_DIGITS = 16
_SEVERAL = "a list of items"


def row_id(asked: Any) -> str:
    """The id of the task with this `input`: the same for every form in which the input may be recorded."""
    text = json.dumps(_canonical(asked), sort_keys=True, ensure_ascii=False)
    return ROW + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def read_items(items: Any) -> tuple[Message, ...]:
    """Items of a request's `input` or a response's `output` as messages; a plain string is a user message.

    Raises:
        ValueError: the value is not a list of items, or has an item of an unknown kind.
    """
    if isinstance(items, str):
        return (Message(role="user", content=items),)
    messages: list[Message] = []
    reasoning: str | None = None
    for place, item in enumerate(_list_of_objects(items)):
        kind = item.get("type") or "message"
        if kind == "reasoning":
            reasoning = _texts(item.get("summary")) or _texts(item.get("content"))
        elif kind == "function_call":
            request = ToolRequest(
                id=str(item.get("call_id") or item.get("id") or f"call-{place}"),
                name=str(item.get("name")),
                arguments=str(item.get("arguments") or "{}"),
            )
            last = messages[-1] if messages else None
            if last is not None and last.role == "assistant" and reasoning is None:
                messages[-1] = last.model_copy(update={"tool_requests": (*last.tool_requests, request)})
            else:
                messages.append(Message(role="assistant", reasoning=reasoning, tool_requests=(request,)))
            reasoning = None
        elif kind == "function_call_output":
            output = item.get("output")
            content = output if isinstance(output, str) else _content("tool", output) or json.dumps(output)
            messages.append(Message(role="tool", content=content, tool_call_id=str(item.get("call_id"))))
        elif kind == "message":
            messages.append(_message(item, reasoning))
            reasoning = None
        else:
            raise ValueError(f"item {place} is of the kind {str(kind)[:60]!r}, which is not known here")
    return tuple(messages)


def _message(item: Mapping[str, Any], reasoning: str | None) -> Message:
    role = str(item.get("role"))
    if role == "developer":
        role = "system"
    if role not in ("system", "user", "assistant"):
        raise ValueError(f"a message has the role {role[:60]!r}, which is not known here")
    content = _content(role, item.get("content"))
    return Message.model_validate(
        {"role": role, "content": content, "reasoning": reasoning if role == "assistant" else None}
    )


def _content(role: str, content: Any) -> str | tuple[Part, ...]:
    """A message's content: text alone as one text, else its parts with the bytes of pictures, sounds and documents.

    Raises:
        ValueError: a part is of an unknown kind, or its bytes are elsewhere.
    """
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    parts = [_chat_part(part) for part in _list_of_objects(cast(list[Any], content))]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    media: dict[str, bytes] = {}
    wire = WireMessage(role, parts, tool_call_id="call" if role == "tool" else None)
    return holding([from_wire(wire, media)], media)[0].content


def _chat_part(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part as chat completions have it."""
    kind = part.get("type")
    text = part.get("text", part.get("refusal"))
    if isinstance(text, str):
        return {"type": "text", "text": text}
    if kind == "input_image":
        if not isinstance(part.get("image_url"), str):
            raise ValueError("an input_image has no image_url: a picture that another service keeps is not fetched")
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    if kind == "input_file":
        if not isinstance(part.get("file_data"), str):
            raise ValueError("an input_file has no file_data: a file that another service keeps is not fetched")
        return {"type": "file", "file": {"file_data": part["file_data"]}}
    if kind in ("input_audio", "image_url"):
        return dict(part)
    raise ValueError(f"a content part is of the kind {str(kind)[:60]!r}, which is not known here")


def _texts(parts: Any) -> str:
    """The text of a summary's parts."""
    if not isinstance(parts, list):
        return ""
    found = list[str]()
    for part in _list_of_objects(cast(list[Any], parts)):
        text = part.get("text")
        found += [text] if isinstance(text, str) else []
    return "\n".join(found)


def _list_of_objects(items: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in cast(list[Any], items)):
        raise ValueError(f"{items!r:.60} is neither a text nor {_SEVERAL}")
    return cast(list[dict[str, Any]], items)


def _canonical(value: Any) -> Any:
    """An input normalised: without nulls and default types, and with text parts joined to strings."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return [_plain_item(item) for item in cast(list[Any], value)] if isinstance(value, list) else value


def _plain_item(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    kept = {key: each for key, each in cast(dict[str, Any], item).items() if each is not None}
    if kept.get("type") == "message":
        del kept["type"]
    if kept.get("role") == "developer":
        kept["role"] = "system"
    content = kept.get("content")
    if isinstance(content, list) and all(
        isinstance(part, dict) and set(cast(dict[str, Any], part)) <= {"type", "text"}
        for part in cast(list[Any], content)
    ):
        kept["content"] = _texts(content)
    return kept
