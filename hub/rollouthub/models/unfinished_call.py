"""Estimates the tokens and cost of a model call whose end was not received, for its record and for the budget."""

from collections.abc import Sequence

from mcp_types import Tool
from pydantic_core import to_json

from rollouthub.generation import Model, ModelReply, ModelRequest, PricedModel
from rollouthub.messages import Delta, Message, ToolRequest, media_of
from rollouthub.models.media_tokens import media_tokens
from rollouthub.rollout import BROKEN_OFF, Usage

CHARACTERS_A_TOKEN = 4


def estimated(model: Model, request: ModelRequest) -> ModelReply:
    """A reply for a call whose end was not received: the streamed pieces, with estimated token counts."""
    stream = request.stream
    said = stream.said if stream is not None else []
    words = "".join(piece.text for piece in said)
    thoughts = "".join(piece.reasoning for piece in said)
    prompt_tokens = _prompt_characters(request.messages, request.tools) // CHARACTERS_A_TOKEN
    shown = media_of(request.messages)
    prompt_tokens += sum(media_tokens(model.name, part, request.media.get(part.digest)) for part in shown)
    written = sum(len(tool.arguments) for piece in said for tool in piece.tools) + len(words) + len(thoughts)
    usage = Usage(prompt_tokens=prompt_tokens, output_tokens=max(len(said), written // CHARACTERS_A_TOKEN))
    return ModelReply(
        message=Message(role="assistant", content=words, reasoning=thoughts or None, tool_requests=_requests(said)),
        finish_reason=BROKEN_OFF,
        usage=usage,
        cost=model.cost_of(usage.prompt_tokens, usage.output_tokens) if isinstance(model, PricedModel) else None,
    )


def _requests(said: Sequence[Delta]) -> tuple[ToolRequest, ...]:
    """The tool requests whose id and name have arrived, with the arguments received so far."""
    begun: dict[int, tuple[str, str, list[str]]] = {}
    for piece in (tool for delta in said for tool in delta.tools):
        if piece.index not in begun and piece.id is not None and piece.name is not None:
            begun[piece.index] = piece.id, piece.name, []
        if piece.index in begun:
            begun[piece.index][2].append(piece.arguments)
    return tuple(ToolRequest(id=id, name=name, arguments="".join(parts)) for id, name, parts in begun.values())


def _prompt_characters(messages: Sequence[Message], tools: Sequence[Tool]) -> int:
    words = sum(len(message.text) + len(message.reasoning or "") for message in messages)
    calls = sum(len(call.name) + len(call.arguments) for message in messages for call in message.tool_requests)
    return words + calls + sum(len(to_json(tool)) for tool in tools)
