"""A record's conversation as a document: one section for each turn, with its cards, and a last section that says how
it ended.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

from rich.text import Text

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count, number
from rollouthub.store.notes import NO_NOTES, RolloutNotes
from rollouthub.views.cards.card import TurnCards, VerdictCard
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub.views.note_words import turn_note_lines
from rollouthub_tui.widgets.rollout.card_pieces import SHOWN, card_pieces, verdict_pieces
from rollouthub_tui.widgets.rollout.document import Piece, Section

_Made = Callable[[int], TurnCards]
NOTE_STYLE = "bright_yellow"
MANY_TURNS = 200
"""With more turns than this, all but the first and last are closed at first."""
_CLOSED_FACTS = 4
"""Most facts in the title of a closed turn, which has room for what was said instead."""


def transcript(rollout: Rollout, notes: RolloutNotes = NO_NOTES, *, raw: bool = False) -> list[Section]:
    """The sections of the conversation: one per turn, with what was noted on it, then the end. With `raw`, arguments
    are shown as JSON.
    """
    many = len(rollout.turns) > MANY_TURNS
    cards = RolloutCards(rollout, SHOWN)
    made = cache(cards.turn)
    noted = {turn - 1: list(turn_note_lines(each)) for turn, each in notes.turns}
    sections = [
        Section(
            ("turn", turn.index),
            partial(_title, made, place, bool(noted.get(turn.index))),
            partial(_pieces, made, place, raw, noted.get(turn.index, [])),
            is_open=not many or place in (0, len(rollout.turns) - 1),
            has_error=any(call.is_error for call in turn.tool_calls),
        )
        for place, turn in enumerate(rollout.turns)
    ]
    return [*sections, ending_section(cards.verdict(), has_turns=bool(rollout.turns))]


def ending_section(card: VerdictCard, *, has_turns: bool) -> Section:
    """How a rollout ended, and why."""
    title = partial(_ending, card, has_turns)
    return Section("ending", title, lambda: list(verdict_pieces(card)), has_error=bool(card.faults))


def _ending(card: VerdictCard, has_turns: bool, width: int, is_open: bool) -> Text:
    became = f"reward {number(card.reward)}" if card.reward is not None else f"{card.word}, unscored"
    what = "ended" if has_turns else "ended without any turn"
    head = (f"{card.mark} {what}", f"bold {card.style}")
    line = Text.assemble(head, f" · {card.stop} · {became}")
    if line.cell_len > width:  # what it came to is worth more than how it stopped
        line = Text.assemble(head, f" · {became}")
        line.truncate(width, overflow="ellipsis")
    return line


def _title(made: _Made, place: int, is_noted: bool, width: int, is_open: bool) -> Text:
    turn = made(place)
    facts = [turn.seat, *turn.facts] if is_open else [turn.seat, *turn.facts[:_CLOSED_FACTS]]
    name = f"{turn.number} · noted" if is_noted else turn.number
    return turn_title(name, facts, turn.errors, "" if is_open else turn.gist, width)


def turn_title(name: str, facts: Sequence[str | None], errors: int, gist: str, width: int) -> Text:
    """The title line of a turn; `gist` is a short summary of its calls and text."""
    title = Text(name, style="bold")
    for fact in facts:
        if fact:
            title.append(" · ", "dim").append(fact, "not bold")
    if errors:
        title.append(" · ", "dim").append(count(errors, "error"), "bold red")
    if gist and (room := width - title.cell_len - 3) > 8:
        title.append(f"  {gist[:room]}", "not bold dim")
    if title.cell_len > width:
        title.truncate(width, overflow="ellipsis")
    return title


def _pieces(made: _Made, place: int, raw: bool, noted: Sequence[str]) -> list[Piece]:
    cards = made(place).cards
    notes = [Piece("notes", "\n".join(noted), head=Text("notes", NOTE_STYLE), rule=NOTE_STYLE)] if noted else []
    return notes + [piece for at, card in enumerate(cards) for piece in card_pieces(f"card {at}", card, raw=raw)]
