"""The rollouts of a run that people noted something on, as facts of a report."""

import sqlite3
from collections.abc import Iterator

from rollouthub.store.notes import NoteComment, NoteReview, RolloutNotes, RunNotes, TurnNotes
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.report.report_facts import NotedPart, NotedRollout

MOST_NOTED = 100
"""Most rollouts with their notes in a report."""
MOST_PARTS, MOST_COMMENTS, COMMENT_CHARACTERS = 20, 20, 1000
"""Most turns with notes and most comments of a rollout, and most characters of a comment."""
_ROW = (
    "SELECT effective, environment, task_id, sample, outcome, reward FROM rollouts WHERE rollout_id = ? AND attempt = ?"
)


def noted_rollouts(
    kept: RunNotes, connection: sqlite3.Connection, plainness: Plainness
) -> tuple[tuple[NotedRollout, ...], int]:
    """Rollouts with notes, starred ones first, then those with comments; and the number of those left out."""
    rows = (
        (rollout_id, attempt, notes, row)
        for rollout_id, attempt, notes in kept
        if (row := connection.execute(_ROW, (rollout_id, attempt)).fetchone()) is not None
    )
    found = sorted(rows, key=lambda each: (not _is_starred(each[2]), not each[2].all_comments))
    return tuple(_noted(*each, plainness) for each in found[:MOST_NOTED]), max(0, len(found) - MOST_NOTED)


def _is_starred(notes: RolloutNotes) -> bool:
    return notes.is_starred or any(turn.is_starred for _, turn in notes.turns)


def _noted(
    rollout_id: str,
    attempt: int,
    notes: RolloutNotes,
    row: tuple[int, str, str, int, str, float | None],
    plain: Plainness,
) -> NotedRollout:
    effective, environment, task, sample, outcome, reward = row
    parts = tuple(_parts(notes, plain))
    return NotedRollout(
        rollout_id=plain.name(rollout_id),
        attempt=attempt,
        is_effective=bool(effective),
        environment=plain.name(environment),
        task=plain.name(task),
        sample=sample,
        outcome=outcome,
        reward=reward,
        parts=parts,
        comments_left_out=len(notes.all_comments) - sum(len(part.notes.comments) for part in parts),
    )


def _parts(notes: RolloutNotes, plain: Plainness) -> Iterator[NotedPart]:
    """The notes on the rollout, then those on its turns, cut to size and redacted."""
    room = MOST_COMMENTS
    for turn, noted in ((None, notes), *notes.turns)[: 1 + MOST_PARTS]:
        comments = noted.comments[:room]
        room -= len(comments)
        kept = TurnNotes(
            tuple(map(plain.name, noted.tags)),
            noted.is_starred,
            tuple(
                NoteComment(plain.ours(each.text, COMMENT_CHARACTERS), plain.name(each.by), each.at)
                for each in comments
            ),
            tuple(NoteReview(plain.name(each.by), each.at) for each in noted.reviews),
        )
        if kept:
            yield NotedPart(turn=turn, notes=kept)
