"""The transcript of a rollout in a report: cards bounded in length, and without control characters."""

from typing import Literal

from rollouthub.values import Frozen
from rollouthub.views.cards.card import NoteCard, TurnCards, VerdictCard


class Transcript(Frozen):
    """The transcript of one rollout."""

    chosen: Literal["worst", "best", "unscored"]
    rollout_id: str
    environment: str
    task: str
    sample: int
    outcome: str
    stop: str
    reward: float | None
    passed: bool | None
    fault: str | None
    turns: int
    output_tokens: int
    seconds: float
    cards: tuple[TurnCards | NoteCard, ...]
    """The turns, and notes on what was left out between them."""
    verdict: VerdictCard | None
    """How it ended; None if its record is too large for a report, or not what this version writes."""
