"""Chooses the rollouts that a report shows in full, and cuts them to size."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import ValidationError

from rollouthub.rollout import Rollout, Turn
from rollouthub.store.sql_schema import TURN_BITS
from rollouthub.views.cards.card import NoteCard, TurnCards
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.embedded_pictures import EmbeddedPictures
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.rollout_text import Transcript

Chosen = Literal["worst", "best", "unscored"]

FIRST_TURNS, LAST_TURNS = 6, 10
TEXT_CHARACTERS = 3000
"""Most characters of one message, of a call's arguments, or of a result."""
BODY_BYTES = 2**22
"""Turns and records stored in more characters than this are not read for a report."""
CARDS_OF_A_TURN = 40
"""Most messages, and most calls, of one turn."""
_ROWS = {
    "worst": "SELECT id, min(reward), total(0) FROM rollouts WHERE effective AND reward IS NOT NULL "
    "GROUP BY group_id ORDER BY 2, 1 LIMIT ?",
    "best": "SELECT id, max(reward), total(0) FROM rollouts WHERE effective AND reward IS NOT NULL "
    "GROUP BY group_id ORDER BY 2 DESC, 1 LIMIT ?",
    "unscored": "SELECT max(id) FROM rollouts WHERE effective AND reward IS NULL "
    "GROUP BY outcome, fault ORDER BY count(*) DESC LIMIT ?",
}


def choose(
    connection: sqlite3.Connection, count: int, pictures: EmbeddedPictures, plainness: Plainness
) -> list[Transcript]:
    """The worst and the best rollouts by reward, one per task, and one unscored rollout per kind of fault."""
    found: list[Transcript] = []
    seen: set[int] = set()
    low, high = connection.execute("SELECT min(reward), max(reward) FROM rollouts WHERE effective").fetchone()
    which: list[Chosen] = ["best", "unscored"] if low == high else ["worst", "best", "unscored"]
    for chosen in which:
        rows = connection.execute(_ROWS[chosen], (count,)).fetchall()
        for row_id in [row[0] for row in rows]:
            if row_id not in seen:
                seen.add(row_id)
                found.append(TranscriptReader(connection, pictures, plainness).read(row_id, chosen))
    return found


@dataclass
class TranscriptReader:
    """Transcribes rollouts of one run."""

    connection: sqlite3.Connection
    pictures: EmbeddedPictures
    plainness: Plainness

    def read(self, row_id: int, chosen: Chosen) -> Transcript:
        """Transcribe one rollout; if its record is too large or unreadable, only its summary columns are shown."""
        row = self.connection.execute(
            "SELECT rollout_id, environment, task_id, sample, outcome, stop, reward, passed, turns, output_tokens, "
            "seconds, fault, CASE WHEN length(body) <= ? THEN body END FROM rollouts WHERE id = ?",
            (BODY_BYTES, row_id),
        ).fetchone()
        rollout_id, environment, task, sample, outcome, stop, reward, passed, turns, tokens, seconds, fault, body = row
        record = _record(body)
        name = self.plainness.name
        broke = record.faults[0] if record and record.faults else None
        return Transcript(
            chosen=chosen,
            rollout_id=name(rollout_id),
            environment=name(environment),
            task=name(task),
            sample=sample,
            outcome=outcome,
            stop=stop,
            reward=reward,
            passed=None if passed is None else bool(passed),
            fault=self.plainness.ours(f"{fault}: {broke.message}") if broke else fault and name(fault),
            turns=turns,
            output_tokens=tokens,
            seconds=seconds,
            cards=tuple(self._cards(row_id, record)),
            verdict=None if record is None else RolloutCards(record, self._shown).verdict(),
        )

    @property
    def _shown(self) -> CardText:
        plain = self.plainness
        return CardText(plain.cut, plain.cut_ours, plain.name, self.pictures.show, TEXT_CHARACTERS, CARDS_OF_A_TURN)

    def _cards(self, row_id: int, record: Rollout | None) -> Iterator[TurnCards | NoteCard]:
        if record is None:
            yield NoteCard("its record is too large for a report, or not what this version of rollouthub writes")
            return
        first, last = row_id << TURN_BITS, row_id + 1 << TURN_BITS
        (total,) = self.connection.execute(
            "SELECT count(*) FROM turns WHERE id >= ? AND id < ?", (first, last)
        ).fetchone()
        is_long = total > FIRST_TURNS + LAST_TURNS
        bodies = self._turns(first, last, "ASC", FIRST_TURNS if is_long else total)
        bodies += self._turns(first, last, "DESC", LAST_TURNS)[::-1] if is_long else []
        read = [_turn(body) for body in bodies]
        cards = RolloutCards(
            record.model_copy(update={"turns": tuple(turn for turn in read if isinstance(turn, Turn))}), self._shown
        )
        place = 0
        for at, turn in enumerate(read):
            if is_long and at == FIRST_TURNS:
                yield NoteCard(f"{total - FIRST_TURNS - LAST_TURNS:,} turns are not in this report")
            if isinstance(turn, Turn):
                yield cards.turn(place)
                place += 1
            else:
                yield NoteCard(turn)

    def _turns(self, first: int, last: int, order: str, count: int) -> list[str | None]:
        query = (
            "SELECT CASE WHEN length(body) <= ? THEN body END FROM turns "
            f"WHERE id >= ? AND id < ? ORDER BY id {order} LIMIT ?"
        )
        return [body for (body,) in self.connection.execute(query, (BODY_BYTES, first, last, count))]


def _turn(body: str | None) -> Turn | str:
    """Parse a turn; why it is not shown if that cannot be."""
    if body is None:
        return "a turn is too large for a report"
    try:
        return Turn.model_validate_json(body)
    except ValidationError:
        return "a turn is not what this version of rollouthub writes"


def _record(body: str | None) -> Rollout | None:
    """Parse a record; None if it is too large, or not in this version's format."""
    try:
        return None if body is None else Rollout.model_validate_json(body)
    except ValidationError:
        return None
