"""The columns that a run's notes make of its rows: tags, comments, stars and reviews. They change while rows stay."""

from typing import Literal

from rollouthub.store.notes import RolloutNotes

NoteKind = Literal["texts", "flag"]

NOTE_KINDS: dict[str, NoteKind] = {
    "tag": "texts",
    "comment": "texts",
    "reviewer": "texts",
    "starred": "flag",
    "reviewed": "flag",
}
"""Columns of notes: `texts` may hold several texts of a row, those of its turns included; a flag is never absent."""


def noted_texts(name: str, notes: RolloutNotes) -> tuple[str, ...]:
    """The texts of a column of several."""
    match name:
        case "tag":
            return notes.all_tags
        case "comment":
            return tuple(comment.text for comment in notes.all_comments)
        case _:
            return tuple(review.by for review in notes.reviews)


def noted_flag(name: str, notes: RolloutNotes) -> bool:
    """The value of a column of yes or no. A star on a turn counts as one of the rollout."""
    if name == "reviewed":
        return notes.is_reviewed
    return notes.is_starred or any(turn.is_starred for _, turn in notes.turns)


def noted_value(name: str, notes: RolloutNotes) -> str | bool | None:
    """The value of a column in one row: several texts with commas between them, None without any."""
    if NOTE_KINDS[name] == "flag":
        return noted_flag(name, notes)
    return ", ".join(noted_texts(name, notes)) or None
