"""What the rollout at the cursor came to, beside the list: its verdict, why, and the end of its conversation."""

from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial

import anyio.to_thread
from rich.text import Text

from rollouthub.errors import HubError, said
from rollouthub.live.follow.row_reader import RowReader
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count, short
from rollouthub.store import LiveState
from rollouthub.store.notes import NO_NOTES, RolloutNotes
from rollouthub.text import plain_name
from rollouthub.views.cards.card import TurnCards
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub_tui.widgets.rollout.card_pieces import SHOWN, card_pieces
from rollouthub_tui.widgets.rollout.document import Piece, Section
from rollouthub_tui.widgets.rollout.document_view import DocumentView
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line
from rollouthub_tui.widgets.rollout.live_transcript import LiveTranscript
from rollouthub_tui.widgets.rollout.notes_line import shown_notes
from rollouthub_tui.widgets.rollout.transcript import NOTE_STYLE, ending_section, turn_title

LEAST_WIDTH = 140
"""Cells of the pane from which there is room for a preview beside the list."""
TURNS = 3
"""Number of last turns that are shown."""
_REST_SECONDS = 0.06
"""A rollout is read once the cursor has stayed at it for so long."""


class Preview(DocumentView, can_focus=False):
    """Shows one rollout; without a cursor, as the list has it."""

    HAS_CURSOR = False
    EDGE = "│ "
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Preview { width: 42%; min-width: 56; height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: Hashable = None
        """What is shown, or about to be."""
        self._flight: tuple[str, int] | None = None
        """The attempt in flight that is shown; None if none is."""

    @property
    def shown(self) -> Hashable:
        """What was last asked to be shown."""
        return self._shown

    def clear(self) -> None:
        """Show nothing, as there is nothing at the cursor."""
        self._flight = None
        self._take(None, ())

    def show_flight(self, run: WatchedRun, state: LiveState) -> None:
        """Show an attempt in flight: what its row knows, and its conversation once the hub has told it."""
        key = (state.rollout_id, state.attempt, state.state, state.turn, state.output_tokens)
        if key != self._shown:
            flight = (state.rollout_id, state.attempt)
            if flight != self._flight:
                self._take(key, [_flight_section(state)])
            self._flight, self._shown = flight, key
            self._soon(key, partial(self._ask, key, run, state))

    def show_record(self, reader: RowReader, row_id: int, turns: int, notes: RolloutNotes = NO_NOTES) -> None:
        """Show a rollout with a record of so many turns, once the cursor has stayed at it for a moment."""
        key = ("record", row_id, notes)
        if key != self._shown:
            self._flight, self._shown = None, key
            self._soon(key, partial(self._read, key, reader, row_id, turns, notes))

    def _soon(self, key: Hashable, work: Callable[[], Coroutine[object, object, None]]) -> None:
        self.set_timer(_REST_SECONDS, partial(self._begin, key, work))

    def _begin(self, key: Hashable, work: Callable[[], Coroutine[object, object, None]]) -> None:
        if key == self._shown and self.display:
            self.run_worker(work, group="preview", exclusive=True)

    async def _ask(self, key: Hashable, run: WatchedRun, state: LiveState) -> None:
        """Show the last turns of an attempt in flight, as its hub tells them."""
        sections = [_flight_section(state)]
        try:
            if not run.is_steered:
                await run.look_in()
            shown = await run.ask(lambda client: client.show(state.rollout_id, content=True))
            if shown.attempt == state.attempt:
                sections += LiveTranscript().sections(shown)[-TURNS:]
        except HubError:
            pass  # it has ended, or no hub is there to tell: the row's facts stand
        if key == self._shown:
            self._take(key, sections)

    async def _read(self, key: Hashable, reader: RowReader, row_id: int, turns: int, notes: RolloutNotes) -> None:
        try:
            rollout = await anyio.to_thread.run_sync(reader.ending, row_id, TURNS + 1)
            sections = _too_large() if rollout is None else _sections(rollout, turns, notes)
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


def _sections(rollout: Rollout, turns: int, notes: RolloutNotes) -> list[Section]:
    cards = RolloutCards(rollout, SHOWN)
    shown = range(max(0, len(rollout.turns) - TURNS), len(rollout.turns))
    named = f"{drawn_line(rollout.task.id, 60)} · sample {rollout.sample} · {drawn_line(rollout.rollout_id, 60)}"
    noted = [_notes_section(shown_notes(notes))] if notes else []
    sections = [_line("name", named), *noted, ending_section(cards.verdict(), has_turns=bool(turns))]
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


def _notes_section(lines: Sequence[str]) -> Section:
    title = Text(lines[0], style=NOTE_STYLE)
    rest = [Piece("more notes", "\n".join(lines[1:]), style=NOTE_STYLE)] if lines[1:] else []
    return Section("notes", lambda width, is_open: title, lambda: rest, folds=bool(rest))


def _too_large() -> list[Section]:
    return [_line("large", "its record is too large for a preview, or gone: enter opens it")]


def _line(key: str, words: str) -> Section:
    return Section(key, lambda width, is_open: Text(words, style="dim"), tuple, is_open=False, folds=False)
