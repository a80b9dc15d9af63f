"""What the rollout at the cursor came to, beside the list: its verdict, why, and the end of its conversation."""

from collections.abc import Hashable, Sequence
from functools import partial

import anyio.to_thread
from rich.text import Text

from rollouthub.errors import HubError, said
from rollouthub.live.follow.row_reader import RowReader
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count, short
from rollouthub.store import LiveState
from rollouthub.text import plain_name
from rollouthub.views.cards.card import TurnCards
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub_tui.widgets.rollout.card_pieces import SHOWN, card_pieces
from rollouthub_tui.widgets.rollout.document import Piece, Section
from rollouthub_tui.widgets.rollout.document_view import DocumentView
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line
from rollouthub_tui.widgets.rollout.transcript import ending_section, turn_title

LEAST_WIDTH = 140
"""Cells of the pane from which there is room for a preview beside the list."""
TURNS = 3
"""Number of last turns that are shown."""
_REST_SECONDS = 0.06
"""A rollout is read once the cursor has stayed at it for so long."""


class Preview(DocumentView, can_focus=False):
    """Shows one rollout; without a cursor, as the list has it."""

    HAS_CURSOR = False
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Preview { width: 42%; min-width: 56; height: 1fr; border-left: solid $foreground 25%; padding: 0 0 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: Hashable = None
        """What is shown, or about to be."""

    @property
    def shown(self) -> Hashable:
        """What was last asked to be shown."""
        return self._shown

    def clear(self) -> None:
        """Show nothing, as there is nothing at the cursor."""
        self._take(None, ())

    def show_flight(self, state: LiveState) -> None:
        """Show an attempt in flight: what its row knows."""
        key = (state.rollout_id, state.attempt, state.state, state.turn, state.output_tokens)
        if key != self._shown:
            self._take(key, [_flight_section(state)])

    def show_record(self, reader: RowReader, row_id: int, turns: int) -> None:
        """Show a rollout with a record of so many turns, once the cursor has stayed at it for a moment."""
        key = ("record", row_id)
        if key != self._shown:
            self._shown = key
            self.set_timer(_REST_SECONDS, partial(self._begin, key, reader, row_id, turns))

    def _begin(self, key: Hashable, reader: RowReader, row_id: int, turns: int) -> None:
        if key == self._shown and self.display:
            self.run_worker(partial(self._read, key, reader, row_id, turns), group="preview", exclusive=True)

    async def _read(self, key: Hashable, reader: RowReader, row_id: int, turns: int) -> None:
        try:
            rollout = await anyio.to_thread.run_sync(reader.ending, row_id, TURNS + 1)
            sections = _too_large() if rollout is None else _sections(rollout, turns)
        except (HubError, OSError, ValueError) as error:
            sections = [_line("problem", plain_name(said(error)))]
        if key == self._shown:
            self._take(key, sections)

    def _take(self, key: Hashable, sections: Sequence[Section]) -> None:
        self._shown = key
        self.cursor = 0
        self.show(sections)
        self.scroll_to(y=0, animate=False, force=True)

    def turn_page(self, by: int) -> None:
        """Scroll by half its height."""
        self.scroll_to(y=self.scroll_offset.y + by * max(1, self.size.height // 2), animate=False, force=True)


def _sections(rollout: Rollout, turns: int) -> list[Section]:
    cards = RolloutCards(rollout, SHOWN)
    shown = range(max(0, len(rollout.turns) - TURNS), len(rollout.turns))
    named = f"{drawn_line(rollout.task.id, 60)} · sample {rollout.sample} · {drawn_line(rollout.rollout_id, 60)}"
    sections = [_line("name", named), ending_section(cards.verdict(), has_turns=bool(turns))]
    if left := turns - len(shown):
        sections.append(_line("left", f"… {count(left, 'earlier turn')}: enter shows all"))
    sections += [_turn_section(cards.turn(place)) for place in shown]
    return sections


def _turn_section(turn: TurnCards) -> Section:
    def title(width: int, is_open: bool) -> Text:
        return turn_title(turn.number, [turn.seat, *turn.facts], turn.errors, "", width)

    def pieces() -> list[Piece]:
        return [piece for at, card in enumerate(turn.cards) for piece in card_pieces(f"card {at}", card)]

    return Section(("turn", turn.index), title, pieces)


def _flight_section(state: LiveState) -> Section:
    facts = [count(state.turn, "turn"), f"{short(state.output_tokens)} tokens"]
    title = Text.assemble(("▸ in flight: ", "bold cyan"), (state.state, "bold"), f" · {' · '.join(facts)}")
    hint = Piece("hint", "enter shows its conversation as it grows", style="dim")
    return Section("flight", lambda width, is_open: title, lambda: [hint])


def _too_large() -> list[Section]:
    return [_line("large", "its record is too large for a preview, or gone: enter opens it")]


def _line(key: str, words: str) -> Section:
    return Section(key, lambda width, is_open: Text(words, style="dim"), tuple, is_open=False, folds=False)
