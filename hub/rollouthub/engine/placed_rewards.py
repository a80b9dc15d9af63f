"""Rewards of turns, spans and seats: checked against the turns that were played, and written onto them."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence

from rollouthub.errors import VerifierError
from rollouthub.rollout import Turn
from rollouthub.score import Score, SpanReward

SPAN_TOKENS = "span_tokens"
"""The gap of a record that rewards a span of characters without knowing the tokens that hold them."""


def place_rewards(turns: Sequence[Turn], score: Score | None, seats: Collection[str] | None = None) -> tuple[Turn, ...]:
    """The turns with the rewards that the score gives them; turns that it does not name have none.

    Raises:
        VerifierError: the score names a turn, tokens or a seat that the rollout does not have.
    """
    if score is None or not (score.turn_rewards or score.span_rewards or score.seat_rewards):
        return _cleared(turns)
    by_index = {turn.index: turn for turn in turns}
    for index in (*score.turn_rewards, *(span.turn for span in score.span_rewards)):
        if index not in by_index:
            raise VerifierError(f"the score rewards turn {index}, and the episode has {len(turns)} (from 0)")
    for span in score.span_rewards:
        _check_span(span, by_index[span.turn])
    known = {turn.agent for turn in turns} if seats is None else seats
    for seat in score.seat_rewards:
        if seat not in known:
            raise VerifierError(f"the score rewards seat {seat!r}; the seats are {', '.join(sorted(known)) or 'none'}")
    given = score.turn_rewards
    return tuple(turn.model_copy(update={"reward": given.get(turn.index)}) for turn in turns)


def _check_span(span: SpanReward, turn: Turn) -> None:
    """Raise VerifierError for a span that ends after its turn's response."""
    ids = turn.output_token_ids
    if span.unit == "character":
        length = len(turn.response.text)
    elif ids is None:
        return
    else:
        length = len(ids)
    if span.end > length:
        raise VerifierError(f"the score rewards {span.unit}s up to {span.end} of turn {span.turn}, which has {length}")


def with_token_spans(turns: Sequence[Turn], score: Score | None) -> Score | None:
    """The score with spans of tokens instead of spans of characters, where the record says where tokens end.

    A token belongs to a span if it holds one of its characters.
    """
    if score is None or all(span.unit == "token" for span in score.span_rewards):
        return score
    by_index = {turn.index: turn for turn in turns}
    spans = tuple(_in_tokens(span, by_index[span.turn]) for span in score.span_rewards)
    return score.model_copy(update={"span_rewards": spans})


def _in_tokens(span: SpanReward, turn: Turn) -> SpanReward:
    if span.unit == "token" or turn.output_text_ends is None:
        return span
    ends = turn.output_text_ends.view()
    first, last = bisect_right(ends, span.start), bisect_left(ends, span.end)
    if last >= len(ends):  # a foreign record may be inconsistent
        return span
    return span.model_copy(update={"start": first, "end": last + 1, "unit": "token"})


def unmapped_spans(turns: Sequence[Turn], score: Score | None) -> tuple[str, ...]:
    """The gap `span_tokens`, if a turn with token ids has a reward of a span of characters."""
    sampled = {turn.index for turn in turns if turn.output_token_ids is not None}
    spans = () if score is None else score.span_rewards
    return (SPAN_TOKENS,) if any(span.unit == "character" and span.turn in sampled for span in spans) else ()


def _cleared(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns without rewards."""
    if all(turn.reward is None for turn in turns):
        return tuple(turns)
    return tuple(turn.model_copy(update={"reward": None}) for turn in turns)
