"""Words in, words out: the prompt that verl-agent's policy gets at each step, and the call that its answer means."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from mcp_types import Tool

from rollouthub.messages import Message, ToolRequest, assistant
from rollouthub.models.tokens.tool_text import find_tool_parser

_CALL = '<tool_call>{"name": "…", "arguments": {…}}</tool_call>'
_MARK = "<tool_call>"
NOT_UNDERSTOOD = f"Your last answer held a tool call that could not be read. Write one as {_CALL}."


class Projected(NamedTuple):
    """What an action means."""

    message: Message
    """As the agent says it."""
    is_valid: bool
    """Whether it is a call that can be made, or words without any."""


def project(text: str, tools: Sequence[Tool], turn: int = 0) -> Projected:
    """Read an action: tool calls in it, else the agent's last words."""
    spoken = find_tool_parser("hermes")(text, tools)
    known = {tool.name for tool in tools}
    if not spoken.requests:
        return Projected(assistant(text), _MARK not in text)
    requests = [
        ToolRequest(id=f"call-{turn}-{place}", name=request.name, arguments=request.arguments)
        for place, request in enumerate(spoken.requests)
    ]
    return Projected(assistant(spoken.words, *requests), all(request.name in known for request in requests))


def anchor(messages: Sequence[Message]) -> str:
    """The observation alone, without a history: equal where two episodes are at the same place, for GiGPO's groups."""
    return "\n".join(message.text for message in messages[_begin_of_latest(messages) :])


def observation(messages: Sequence[Message], tools: Sequence[Tool], history_length: int = 2) -> str:
    """One step's prompt: the task, the tools, the latest `history_length` steps, and what is seen now."""
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


def _begin_of_latest(messages: Sequence[Message]) -> int:
    """Where what is seen now begins: after the agent's last words."""
    return next((place + 1 for place in range(len(messages) - 1, -1, -1) if messages[place].role == "assistant"), 0)


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
