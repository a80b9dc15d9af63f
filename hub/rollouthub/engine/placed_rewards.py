"""Rewards of turns, spans and seats: checked against the turns that were played, and written onto them."""

from collections.abc import Collection, Sequence

from rollouthub.errors import VerifierError
from rollouthub.rollout import Turn
from rollouthub.score import Score


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
        ids = by_index[span.turn].output_token_ids
        if ids is not None and span.end > len(ids):
            raise VerifierError(f"the score rewards tokens up to {span.end} of turn {span.turn}, which has {len(ids)}")
    known = {turn.agent for turn in turns} if seats is None else seats
    for seat in score.seat_rewards:
        if seat not in known:
            raise VerifierError(f"the score rewards seat {seat!r}; the seats are {', '.join(sorted(known)) or 'none'}")
    given = score.turn_rewards
    return tuple(turn.model_copy(update={"reward": given.get(turn.index)}) for turn in turns)


def _cleared(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns without rewards."""
    if all(turn.reward is None for turn in turns):
        return tuple(turns)
    return tuple(turn.model_copy(update={"reward": None}) for turn in turns)
