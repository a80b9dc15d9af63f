"""Text in, text out: the prompt for verl-agent's policy at each step, and parsing of its answer into tool calls."""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from mcp_types import Tool

from rollouthub.errors import ModelError
from rollouthub.messages import Message, ToolRequest, assistant, media_of
from rollouthub.models.tokens.engine_messages import shown_media
from rollouthub.models.tokens.tool_text import find_tool_parser
from rollouthub.trainers.pictures.prompt_pictures import open_picture

_CALL = '<tool_call>{"name": "…", "arguments": {…}}</tool_call>'
_MARK = "<tool_call>"
NOT_UNDERSTOOD = f"Your last answer held a tool call that could not be read. Write one as {_CALL}."


class Projected(NamedTuple):
    """An action parsed from the model's text."""

    message: Message
    """The action as an assistant message."""
    is_valid: bool
    """Whether every tool call in the text is readable and names a known tool; true without tool calls."""


def project(text: str, tools: Sequence[Tool], turn: int = 0) -> Projected:
    """Parse an action: the tool calls in the text, or else the text as the agent's answer."""
    spoken = find_tool_parser("hermes")(text, tools)
    known = {tool.name for tool in tools}
    if not spoken.requests:
        return Projected(assistant(text), _MARK not in text)
    requests = [
        ToolRequest(id=f"call-{turn}-{place}", name=request.name, arguments=request.arguments)
        for place, request in enumerate(spoken.requests)
    ]
    return Projected(assistant(spoken.words, *requests), all(request.name in known for request in requests))


IMAGE = "<image>"
"""Placeholder in a prompt, at which verl-agent's loop inserts the observation's picture."""


class Sight(NamedTuple):
    """An observation: the prompt's text and its picture."""

    text: str
    picture: Any
    """An array [height, width, 3] of bytes; None if no picture was shown yet."""


def with_picture(text: str, messages: Sequence[Message], media: Mapping[str, bytes]) -> Sight:
    """A prompt with the latest picture of its conversation, because verl-agent's loop takes only one.

    Raises:
        ModelError: the picture cannot be opened, or the conversation has sounds.
    """
    shown = shown_media(messages, media)
    if not shown:
        return Sight(text, None)
    if other := next((each for each in media_of(messages) if not each.mime_type.startswith("image/")), None):
        raise ModelError(f"verl-agent's policy is shown pictures alone, and the episode has {other.mime_type}")
    *_, latest = shown.values()
    note = f"(Of {len(shown)} pictures so far, you see the latest.)\n" if len(shown) > 1 else ""
    # A mark of the agent's or a tool's own would be taken for another picture.
    return Sight(
        f"{IMAGE}\n{note}{text.replace(IMAGE, '< image>')}", import_module("numpy").asarray(open_picture(latest))
    )


def observation(messages: Sequence[Message], tools: Sequence[Tool], history_length: int = 2) -> str:
    """One step's prompt: the task, the tools, the latest `history_length` steps, and the result of the last step."""
    spoken = [place for place, message in enumerate(messages) if message.role == "assistant"]
    begin = spoken[0] if spoken else len(messages)
    parts = [message.text for message in messages[:begin]]
    if tools:
        shown = "\n".join(_shown(tool) for tool in tools)
        parts.append(
            f"You may call these tools:\n{shown}\nCall one by writing {_CALL}, or say your final answer in words."
        )
    if spoken:
        steps = [
            (messages[place], messages[place + 1 : following])
            for place, following in zip(spoken, [*spoken[1:], len(messages)], strict=True)
        ]
        *past, (said, seen) = steps
        if kept := past[-history_length:] if history_length > 0 else []:
            parts.append(f"The steps before ({len(past)} so far, the latest {len(kept)}):")
            parts += [f"{_said(action)}\n{_seen(results)}" for action, results in kept]
        parts.append(f"Your latest step:\n{_said(said)}\nWhat came of it:\n{_seen(seen)}")
    return "\n\n".join(parts)


def _said(message: Message) -> str:
    calls = [
        f'{_MARK}{{"name": {json.dumps(each.name)}, "arguments": {each.arguments}}}</tool_call>'
        for each in message.tool_requests
    ]
    return "\n".join([*filter(None, [message.text]), *calls])


def _seen(messages: Sequence[Message]) -> str:
    return "\n".join(message.text for message in messages)


def _shown(tool: Tool) -> str:
    described = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return json.dumps({name: value for name, value in described.items() if value is not None}, ensure_ascii=False)
