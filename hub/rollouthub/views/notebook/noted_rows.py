"""The notes of people on rollouts and their turns, one row each, as an Arrow table."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.store.notes import RolloutNotes, TurnNotes

_SECOND = 1_000_000


class NotedRow(NamedTuple):
    """One note."""

    rollout_id: str
    attempt: int
    environment: str | None
    task_id: str | None
    turn: int | None
    """The turn, counted from 1; None for a note on the rollout itself."""
    kind: str
    """`tag`, `star`, `comment` or `review`."""
    text: str | None
    """The tag or the comment; None for a star or a review."""
    by: str | None
    """Who commented or reviewed."""
    at: int | None
    """When, in microseconds since the epoch."""


def noted_table(arrow: Any, columns: AttemptColumns, places: list[int]) -> Any:
    """A table with a row for each note on these rows of a feed."""
    rows = [row for place in places for row in _rows(columns, place, columns.notes_at(place))]
    text, whole = arrow.string(), arrow.int64()
    kinds = dict.fromkeys(NotedRow._fields, text)
    kinds |= {"attempt": whole, "turn": whole, "at": arrow.timestamp("us", tz="UTC")}
    return arrow.table({name: arrow.array([getattr(row, name) for row in rows], kinds[name]) for name in kinds})


def _rows(columns: AttemptColumns, place: int, notes: RolloutNotes) -> Iterator[NotedRow]:
    parts: list[tuple[int | None, TurnNotes]] = [(None, notes), *notes.turns]
    where = (
        columns.texts["rollout_id"][place],
        columns.wholes["attempt"][place],
        columns.words["environment"][place],
        columns.words["task_id"][place],
    )
    for turn, part in parts:
        if part.is_starred:
            yield NotedRow(*where, turn, "star", None, None, None)
        for tag in part.tags:
            yield NotedRow(*where, turn, "tag", tag, None, None)
        for review in part.reviews:
            yield NotedRow(*where, turn, "review", None, review.by, round(review.at * _SECOND))
        for comment in part.comments:
            yield NotedRow(*where, turn, "comment", comment.text, comment.by, round(comment.at * _SECOND))
