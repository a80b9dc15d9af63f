"""Conversations as items of the Responses API, with the three fields of token ids on what may be learnt from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool

from rollouthub.export.segment import Segment
from rollouthub.messages import Media, Message
from rollouthub.rollout import Rollout, Turn

Item = dict[str, Any]
TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


def input_items(messages: Sequence[Message]) -> list[Item]:
    """Messages as `input`: what an episode begins with."""
    return [item for place, message in enumerate(messages) for item in _items(message, f"input-{place}")]


def output_items(turns: Sequence[Turn], segment: Segment) -> list[Item]:
    """Everything from the first answer on as `output`.

    The tokens that are to be learnt from stand on the last item of the turn that sampled them; a turn that is masked
    has none, and one that is masked in part has an item of its own for each further piece.
    """
    pieces = _pieces(segment)
    items: list[Item] = []
    for place, turn in enumerate(turns):
        if place:
            items += [
                item for number, each in enumerate(turn.messages) for item in _items(each, f"{turn.index}-{number}")
            ]
        said = _items(turn.response, f"turn-{turn.index}") or [words(f"turn-{turn.index}", "")]
        for number, piece in enumerate(pieces.get(turn.index, ())):
            if number:
                said.append(words(f"turn-{turn.index}-piece-{number}", ""))
            said[-1].update(piece)
        items += said
    return items


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbouring tokens that are learnt from."""

    begin: int
    end: int
    turn: int
    """That of its last token."""


def _pieces(segment: Segment) -> dict[int, list[Mapping[str, Any]]]:
    """Token fields by turn: each prompt is exactly what stands before, so that they are contiguous."""
    ids, logprobs = list(segment.token_ids), list(segment.logprobs)
    found: dict[int, list[Mapping[str, Any]]] = {}
    for run in _runs(segment):
        values = (ids[: run.begin], ids[run.begin : run.end], logprobs[run.begin : run.end])
        found.setdefault(run.turn, []).append(dict(zip(TOKEN_FIELDS, values, strict=True)))
    return found


def _runs(segment: Segment) -> Iterator[_Run]:
    """Two turns with nothing between are one run: a message without tokens has no type in NeMo-RL's batches."""
    begin: int | None = None
    turns = list(segment.turn_ids)
    mask = [*segment.loss_mask, 0]
    for place, is_learnt in enumerate(mask):
        if is_learnt and begin is None:
            begin = place
        elif not is_learnt and begin is not None:
            yield _Run(begin, place, turns[place - 1])
            begin = None


def tool_params(tools: Sequence[Tool]) -> list[Item]:
    """Tools as a request of the Responses API has them."""
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


def usage_of(rollout: Rollout) -> Item:
    """Tokens of all turns."""
    read = sum(turn.usage.prompt_tokens for turn in rollout.turns)
    said = sum(turn.usage.output_tokens for turn in rollout.turns)
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + said,
    }


def _items(message: Message, name: str) -> list[Item]:
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id or name, "output": message.text}]
    if message.role != "assistant":
        return [{"type": "message", "role": message.role, "content": _content(message)}]
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
    """What an assistant said, as a message item."""
    return {
        "type": "message",
        "id": f"msg-{name}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }


def _content(message: Message) -> str | list[Item]:
    if isinstance(message.content, str):
        return message.content
    return [
        # The bytes are in the run's media; NeMo-RL's tokens hold the picture's places already.
        {"type": "input_text", "text": f"[{part.mime_type} {part.digest}]"}
        if isinstance(part, Media)
        else {"type": "input_text", "text": part.text}
        for part in message.content
    ]
