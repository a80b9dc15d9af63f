"""Steps of single calls, and the messages that they were part of; standard library alone, in the foreign process."""

# pyright: basic

import json
from collections.abc import Sequence
from typing import Any


def taken(stepped: "Sequence[Any]", at: int, message: "dict[str, Any]") -> int:
    """How many steps, from one on, are those of a message: its words, or as many of its calls as were made.

    A call that the hub itself answered, as it was malformed or of no tool, was no step; nor is one that a transcript
    claims and that were never made.
    """
    calls = [_plain(call["name"], call["arguments"]) for call in message.get("tool_calls") or ()]
    count = 0
    while at + count < len(stepped):
        step = stepped[at + count]
        made = [_plain(call.name, call.arguments) for call in step.tool_calls or ()]
        if not made:
            return count or int(not calls and (step.content or "") == (message.get("content") or ""))
        if made[0] not in calls:
            break
        calls.remove(made[0])
        count += 1
    return count


def _plain(name: str, arguments: str) -> "tuple[str, Any]":
    try:
        return name, json.loads(arguments)
    except ValueError:
        return name, arguments


def shown(message: Any) -> "dict[str, Any]":
    """A message as the agent may see it: its role, its words and pictures, its calls, and nothing else."""
    content = getattr(message, "content", None)
    parts: Any = content if isinstance(content, str) else []
    if not isinstance(content, str):
        for part in content or ():
            plain = part if isinstance(part, dict) else part.model_dump()
            if plain.get("type") == "image_url":
                parts.append({"url": plain["image_url"]["url"]})
            else:
                parts.append({"text": str(plain.get("text", f"[{plain.get('type')}]"))})
    found: dict[str, Any] = {"role": message.role, "content": parts}
    calls = getattr(message, "tool_calls", None)
    if calls:
        found["tool_calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
    if message.role == "tool":
        found["tool_call_id"] = message.tool_call_id
    return found
