"""Chooses the rollouts that a report shows in full, and cuts them to size."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from mcp_types import AudioContent, ImageContent, TextContent
from pydantic import ValidationError
from pydantic_core import to_json

from rollouthub.messages import Media, Message
from rollouthub.rollout import Rollout, ToolCall, Turn
from rollouthub.store.sql_schema import TURN_BITS
from rollouthub.views.report.embedded_pictures import EmbeddedPictures, Shown
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.rollout_text import Picture, Transcript, TranscriptBlock

Chosen = Literal["worst", "best", "unscored"]

FIRST_TURNS, LAST_TURNS = 6, 10
TEXT_CHARACTERS = 3000
"""Most characters of one message, of a call's arguments, or of a result."""
BODY_BYTES = 2**22
"""Turns and records stored in more characters than this are not read for a report."""
BLOCKS_OF_A_TURN = 60
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
                found.append(_TranscriptReader(connection, pictures, plainness).read(row_id, chosen))
    return found


@dataclass
class _TranscriptReader:
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
        score = record.score if record else None
        name, said = self.plainness.name, self.plainness.said
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
            components={
                name(key): f"{part.value:g} × {part.weight:g}"
                for key, part in islice(score.components.items(), BLOCKS_OF_A_TURN)
            }
            if score
            else {},
            feedback=said(score.feedback, TEXT_CHARACTERS) if score and score.feedback else None,
            answer=said(record.answer, TEXT_CHARACTERS) if record and record.answer is not None else None,
            fault=self.plainness.ours(f"{fault}: {broke.message}") if broke else fault and name(fault),
            turns=turns,
            output_tokens=tokens,
            seconds=seconds,
            blocks=tuple(self._blocks(row_id)),
        )

    def _blocks(self, row_id: int) -> Iterator[TranscriptBlock]:
        first, last = row_id << TURN_BITS, row_id + 1 << TURN_BITS
        (count,) = self.connection.execute(
            "SELECT count(*) FROM turns WHERE id >= ? AND id < ?", (first, last)
        ).fetchone()
        is_long = count > FIRST_TURNS + LAST_TURNS
        begins = self._turns(first, last, "ASC", FIRST_TURNS if is_long else count)
        for body in begins:
            yield from self._turn(body)
        if is_long:
            yield TranscriptBlock(
                kind="omitted", text=f"{count - FIRST_TURNS - LAST_TURNS:,} turns are not in this report"
            )
            for body in self._turns(first, last, "DESC", LAST_TURNS)[::-1]:
                yield from self._turn(body)

    def _turns(self, first: int, last: int, order: str, count: int) -> list[str | None]:
        query = (
            "SELECT CASE WHEN length(body) <= ? THEN body END FROM turns "
            f"WHERE id >= ? AND id < ? ORDER BY id {order} LIMIT ?"
        )
        return [body for (body,) in self.connection.execute(query, (BODY_BYTES, first, last, count))]

    def _turn(self, body: str | None) -> Iterator[TranscriptBlock]:
        if body is None:
            yield TranscriptBlock(kind="omitted", text="a turn is too large for a report")
            return
        try:
            turn = Turn.model_validate_json(body)
        except ValidationError:
            yield TranscriptBlock(kind="omitted", text="a turn is not what this version of rollouthub writes")
            return
        blocks = [block for message in turn.messages if message.role != "tool" for block in self._message(message)]
        blocks += self._message(turn.response)
        blocks += [self._call(call) for call in turn.tool_calls[:BLOCKS_OF_A_TURN]]
        yield from blocks[:BLOCKS_OF_A_TURN]
        if (more := len(blocks) - BLOCKS_OF_A_TURN) > 0:
            yield TranscriptBlock(
                kind="omitted", text=f"{more:,} messages and calls of this turn are not in this report"
            )

    def _message(self, message: Message) -> Iterator[TranscriptBlock]:
        if message.reasoning:
            yield TranscriptBlock(kind="reasoning", text=self.plainness.said(message.reasoning, TEXT_CHARACTERS))
        parts = () if isinstance(message.content, str) else message.content
        shown = Shown.of(self.pictures.show(part.mime_type, part.digest) for part in parts if isinstance(part, Media))
        if message.text or shown.pictures or shown.left_out:
            yield TranscriptBlock(
                kind="user" if message.role == "tool" else message.role,
                text=self.plainness.said(message.text, TEXT_CHARACTERS),
                pictures=shown.pictures,
                not_shown=shown.left_out,
            )

    def _call(self, call: ToolCall) -> TranscriptBlock:
        texts: list[str] = []
        found: list[Picture | str] = []
        for content in call.result.content[:BLOCKS_OF_A_TURN]:
            if isinstance(content, TextContent):
                texts.append(content.text[: 2 * TEXT_CHARACTERS])
            elif isinstance(content, ImageContent | AudioContent):
                found.append(self.pictures.show(content.mime_type, content.data))
            else:
                texts.append(f"[{content.type}]")
        shown = Shown.of(found)
        arguments = call.arguments if isinstance(call.arguments, str) else to_json(call.arguments).decode()
        return TranscriptBlock(
            kind="call",
            tool=self.plainness.name(call.name),
            text=self.plainness.said(arguments, TEXT_CHARACTERS),
            result=self.plainness.said("\n".join(texts), TEXT_CHARACTERS),
            is_error=call.is_error,
            seconds=call.seconds,
            pictures=shown.pictures,
            not_shown=shown.left_out,
        )


def _record(body: str | None) -> Rollout | None:
    """Parse a record; None if it is too large, or not in this version's format."""
    try:
        return None if body is None else Rollout.model_validate_json(body)
    except ValidationError:
        return None
