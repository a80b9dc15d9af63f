"""Conversations as items of the Responses API; the items to train on carry three fields of token ids and
log-probabilities.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollouthub.export.segment import Segment
from rollouthub.models.response_items import Bytes, Item, message_items, words
from rollouthub.rollout import Rollout, Turn

TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


def output_items(turns: Sequence[Turn], segment: Segment, media: Bytes | None = None) -> list[Item]:
    """The items of `output`: the conversation from the first answer on.

    `media` returns the bytes of a picture by its digest, if pictures are to be included; a tool's pictures follow its
    text as a user message, where NeMo-RL expects them. Without `media`, a picture is only named.

    The last item of a sampled turn carries its token fields. A fully masked turn has none; a partly masked turn gets an
    additional item for each further unmasked piece.
    """
    pieces = _pieces(segment)
    items: list[Item] = []
    for place, turn in enumerate(turns):
        if place:
            items += [
                item
                for number, each in enumerate(turn.messages)
                for item in message_items(each, f"{turn.index}-{number}", media)
            ]
        said = message_items(turn.response, f"turn-{turn.index}", None) or [words(f"turn-{turn.index}", "")]
        for number, piece in enumerate(pieces.get(turn.index, ())):
            if number:
                said.append(words(f"turn-{turn.index}-piece-{number}", ""))
            said[-1].update(piece)
        items += said
    return items


@dataclass(frozen=True, slots=True)
class _Run:
    """A range of consecutive unmasked tokens."""

    begin: int
    end: int
    turn: int
    """Index of the turn of the range's last token."""


def _pieces(segment: Segment) -> dict[int, list[Mapping[str, Any]]]:
    """Token fields by turn. The prompt of each piece is all tokens before it, so pieces are contiguous."""
    ids, logprobs = list(segment.token_ids), list(segment.logprobs)
    found: dict[int, list[Mapping[str, Any]]] = {}
    for run in _runs(segment):
        values = (ids[: run.begin], ids[run.begin : run.end], logprobs[run.begin : run.end])
        found.setdefault(run.turn, []).append(dict(zip(TOKEN_FIELDS, values, strict=True)))
    return found


def _runs(segment: Segment) -> Iterator[_Run]:
    """Ranges of unmasked tokens. Adjacent turns form one range, because NeMo-RL cannot represent an empty message
    between them.
    """
    begin: int | None = None
    turns = list(segment.turn_ids)
    mask = [*segment.loss_mask, 0]
    for place, is_learnt in enumerate(mask):
        if is_learnt and begin is None:
            begin = place
        elif not is_learnt and begin is not None:
            yield _Run(begin, place, turns[place - 1])
            begin = None


def usage_of(rollout: Rollout) -> Item:
    """Token counts over all turns, as the Responses API's `usage`."""
    read = sum(turn.usage.prompt_tokens for turn in rollout.turns)
    said = sum(turn.usage.output_tokens for turn in rollout.turns)
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + said,
    }
