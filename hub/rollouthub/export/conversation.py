"""A rollout as chat messages, for chat templates and text-based trainers."""

import json
import math
from collections.abc import Sequence
from typing import Any, cast

from mcp_types import Tool

from rollouthub.export.segment import Segment, segments
from rollouthub.messages import Media, Message, ToolRequest
from rollouthub.models.direct.chat_wire import encode_tools
from rollouthub.rollout import Rollout, Turn

ChatMessage = dict[str, Any]
"""A chat message: `role`, `content` and, where they apply, `reasoning_content`, `tool_calls` and `tool_call_id`."""


class BrokenConversation(ValueError):
    """A turn's parent is missing or does not come before it."""


def longest_chain(rollout: Rollout, seat: str | None = None) -> tuple[Turn, ...]:
    """The turns of a seat's longest conversation, among equal ones the latest; by default of the seat that spoke first.

    If the conversation forked (by compaction or a retry), the turns of other branches are left out.

    Raises:
        BrokenConversation: a turn's parent does not come before it.
    """
    if not rollout.turns:
        return ()
    name = rollout.turns[0].agent if seat is None else seat
    known: dict[int, tuple[int, Turn]] = {}
    end: Turn | None = None
    longest = 0
    for turn in rollout.turns:
        if turn.parent_turn is not None and turn.parent_turn not in known:
            raise BrokenConversation(f"turn {turn.index} follows turn {turn.parent_turn}, which is not before it")
        depth = 1 if turn.parent_turn is None else known[turn.parent_turn][0] + 1
        known[turn.index] = depth, turn
        if turn.agent == name and depth >= longest:
            longest, end = depth, turn
    chain: list[Turn] = []
    while end is not None:
        chain.append(end)
        end = None if end.parent_turn is None else known[end.parent_turn][1]
    return tuple(reversed(chain))


def chain_segment(rollout: Rollout, chain: Sequence[Turn]) -> Segment:
    """The training segment that ends with the chain's last turn; earlier turns that were rewritten into its prompt
    are part of the prompt.
    """
    last = chain[-1].index
    return next(row for row in segments(rollout) if row.turn_ids[-1:].tolist() == [last])


def has_engine_ids(chain: Sequence[Turn]) -> bool:
    """Whether every turn has the token ids that its engine read and sampled."""
    return bool(chain) and all(
        turn.token_source == "engine" and turn.prompt_token_ids is not None and turn.output_token_ids is not None
        for turn in chain
    )


def messages_of(chain: Sequence[Turn]) -> list[Message]:
    """All messages of a chain, prompts and answers."""
    return [message for turn in chain for message in (*turn.messages, turn.response)]


def chat_message(message: Message) -> ChatMessage:
    """One chat message. Pictures are placeholders `{"type": "image"}`; `media_of` lists them in the same order.

    The arguments of a tool call are an object, as chat templates need them, or text if the model wrote no valid object.
    """
    chat: ChatMessage = {"role": message.role, "content": _content(message)}
    if message.reasoning:
        chat["reasoning_content"] = message.reasoning
    if message.tool_requests:
        chat["tool_calls"] = [_call(request) for request in message.tool_requests]
    if message.tool_call_id is not None:
        chat["tool_call_id"] = message.tool_call_id
    return chat


def parsed_arguments(request: ToolRequest) -> dict[str, Any] | None:
    """A tool call's arguments as an object; None if they are not a valid JSON object."""
    try:
        found: Any = json.loads(request.arguments, parse_constant=_no_number, parse_float=_finite)
        if "\\u" in request.arguments:
            json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair can be written, and not be stored
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], found) if isinstance(found, dict) else None


def tool_schemas(tools: Sequence[Tool]) -> str:
    """Tool definitions as JSON text in OpenAI's format; as text, so that table readers do not merge the fields of
    different tools.
    """
    return bytes(encode_tools(tools)).decode()


def same_words(one: Message, other: Message) -> bool:
    """Whether two messages have the same content, apart from the ids of tool calls."""
    return _without_ids(one) == _without_ids(other)


def _without_ids(message: Message) -> Message:
    requests = tuple(ToolRequest(id="", name=call.name, arguments=call.arguments) for call in message.tool_requests)
    return message.model_copy(update={"tool_requests": requests, "tool_call_id": None, "items": None})


def _content(message: Message) -> str | list[dict[str, str]]:
    if isinstance(message.content, str):
        return message.content
    if not any(isinstance(part, Media) for part in message.content):
        return message.text
    return [
        {"type": "image"} if isinstance(part, Media) else {"type": "text", "text": part.text}
        for part in message.content
    ]


def _call(request: ToolRequest) -> dict[str, Any]:
    arguments = parsed_arguments(request)
    function = {"name": request.name, "arguments": request.arguments if arguments is None else arguments}
    return {"id": request.id, "type": "function", "function": function}


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
