"""The conversation of a rollout in flight as its hub reports it, like a record's but shorter."""

from collections.abc import Mapping
from functools import partial

from rich.text import Text

from rollouthub.live.control.live_views import RolloutDetails, TurnView
from rollouthub.statistics.amounts import count, seconds, short, turn_number
from rollouthub.views.cards.live_cards import live_cards
from rollouthub.views.cards.rollout_cards import follows
from rollouthub_tui.widgets.rollout.card_pieces import SHOWN, card_pieces
from rollouthub_tui.widgets.rollout.document import Piece, Section
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line
from rollouthub_tui.widgets.rollout.transcript import turn_title


class LiveTranscript:
    """Makes sections from reports, reusing those whose turns have not changed."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[TurnView, Section]] = {}

    def sections(self, shown: RolloutDetails) -> list[Section]:
        """The conversation so far."""
        by_index = {turn.index: turn for turn in shown.turns}
        seats = len({turn.agent for turn in shown.turns}) > 1
        sections: list[Section] = []
        if shown.turns_left_out:
            left_out = f"{count(shown.turns_left_out, 'earlier turn')}, shown once the rollout has ended"
            sections.append(Section("left out", lambda width, is_open: Text(left_out, style="dim"), tuple, False))
        known: dict[int, tuple[TurnView, Section]] = {}
        before = shown.turns[0].index - 1 if shown.turns and shown.turns_left_out else None
        for turn in shown.turns:
            earlier = self._known.get(turn.index)
            if earlier is not None and earlier[0] == turn:
                section = earlier[1]
            else:
                section = _section(turn, before, seats, by_index)
            known[turn.index] = (turn, section)
            sections.append(section)
            before = turn.index
        self._known = known
        if not sections:
            waits = Text("nothing was said yet; a turn is shown once the model has answered", style="dim")
            sections.append(Section("waits", lambda width, is_open: waits, tuple, False))
        return sections


def _section(turn: TurnView, before: int | None, seats: bool, turns: Mapping[int, TurnView]) -> Section:
    parent = turns.get(turn.parent_turn) if turn.parent_turn is not None else None
    return Section(
        ("turn", turn.index),
        partial(_title, turn, before, seats),
        partial(_pieces, turn, parent),
        has_error=any(call.outcome == "error" for call in turn.calls),
    )


def _title(turn: TurnView, before: int | None, seats: bool, width: int, is_open: bool) -> Text:
    facts = [
        drawn_line(turn.agent, 40) if seats else None,
        follows(turn.parent_turn, before),
        f"{short(turn.output_tokens)} tokens" if turn.output_tokens else None,
        seconds(turn.seconds) if turn.seconds else None,
        drawn_line(turn.finish_reason, 24) if turn.finish_reason else None,
        count(len(turn.calls), "call") if turn.calls else None,
    ]
    response = turn.messages[-1].text if turn.messages else ""
    gist = " – ".join(part for part in (", ".join(turn.asked[:6]), drawn_line(response)) if part)
    errors = sum(call.outcome == "error" for call in turn.calls)
    return turn_title(turn_number(turn.index), facts, errors, "" if is_open else gist, width)


def _pieces(turn: TurnView, parent: TurnView | None) -> list[Piece]:
    cards = live_cards(turn, parent, SHOWN)
    pieces = [piece for at, card in enumerate(cards) for piece in card_pieces(f"card {at}", card)]
    for name in turn.asked[len(turn.calls) :]:
        head = Text.assemble(("call ", "dim"), (drawn_line(name, 80), "bold yellow"), (" · running", "dim"))
        pieces.append(Piece(f"waiting {len(pieces)}", head=head))
    return pieces
