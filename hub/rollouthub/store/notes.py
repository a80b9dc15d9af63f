"""Notes of people on the rollouts and turns of a run: tags, stars, comments, and who reviewed them.

    add(directory, NoteChange("algebra-1-0", tags=("reward hack",)), by="anna")
    notes = RunNotes.read(directory)
    notes.of("algebra-1-0").tags            # ("reward hack",)
    notes.refresh()                         # True if somebody added a note since; costs one `stat` otherwise

Notes are kept in a file of their own in the run's directory (`note_file.py`), never in `run.db`. They belong to one
attempt: when a rollout is played again, the new attempt begins without any. Turns are counted from 1.

Whatever is read is cut to the bounds below and has no control characters. It is still text of strangers: show it by
`one_line` or `printable`.
"""

import getpass
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from pydantic import JsonValue

from rollouthub.errors import UsageError
from rollouthub.store.note_file import NoteFile, NoteLine, append_lines
from rollouthub.text import one_line, plain

TAG_CHARACTERS, COMMENT_CHARACTERS, NAME_CHARACTERS = 64, 10_000, 64
"""Most characters of a tag, of a comment, and of the name of who wrote it."""
MOST_TAGS, MOST_COMMENTS, MOST_REVIEWS, MOST_TURNS = 32, 200, 32, 1000
"""Most tags, comments and reviewers of a rollout or a turn, and most turns of a rollout with notes."""
_MOST_ID, _LATEST = 400, 1e11


@dataclass(frozen=True, slots=True)
class NoteChange:
    """What one person adds to a rollout, or takes away from it, at once."""

    rollout_id: str
    attempt: int = 0
    turn: int | None = None
    """The turn, counted from 1; None for the rollout itself."""
    tags: tuple[str, ...] = ()
    untags: tuple[str, ...] = ()
    """Tags to remove."""
    star: bool | None = None
    """True sets the star, False removes it."""
    comment: str | None = None
    reviewed: bool | None = None
    """True says that the writer reviewed it, False that nobody has."""


@dataclass(frozen=True, slots=True)
class NoteComment:
    """A comment, and when (Unix time in seconds) who wrote it."""

    text: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class NoteReview:
    """Who reviewed something, and when (Unix time in seconds)."""

    by: str
    at: float


@dataclass(frozen=True, slots=True)
class TurnNotes:
    """The notes on one turn, or on a rollout itself."""

    tags: tuple[str, ...] = ()
    is_starred: bool = False
    comments: tuple[NoteComment, ...] = ()
    reviews: tuple[NoteReview, ...] = ()
    """The reviewers, each with the latest time."""

    def __bool__(self) -> bool:
        return bool(self.tags or self.is_starred or self.comments or self.reviews)

    def as_json(self) -> dict[str, JsonValue]:
        """The notes as JSON, as exports and `--json` have them."""
        return {
            "tags": list(self.tags),
            "starred": self.is_starred,
            "comments": [{"text": comment.text, "by": comment.by, "at": comment.at} for comment in self.comments],
            "reviews": [{"by": review.by, "at": review.at} for review in self.reviews],
        }


@dataclass(frozen=True, slots=True)
class RolloutNotes(TurnNotes):
    """The notes on a rollout, and on its turns."""

    turns: tuple[tuple[int, TurnNotes], ...] = ()
    """Turn, counted from 1 → its notes, in the order of turns."""

    def __bool__(self) -> bool:
        return TurnNotes.__bool__(self) or bool(self.turns)

    def as_json(self) -> dict[str, JsonValue]:
        """The notes as JSON; `turns` has those of turns by their number, counted from 1."""
        return {**TurnNotes.as_json(self), "turns": {str(turn): notes.as_json() for turn, notes in self.turns}}

    @property
    def is_reviewed(self) -> bool:
        """Whether anybody reviewed the rollout itself."""
        return bool(self.reviews)

    @property
    def all_tags(self) -> tuple[str, ...]:
        """The tags of the rollout and of its turns, each once."""
        return tuple(dict.fromkeys([*self.tags, *(tag for _, notes in self.turns for tag in notes.tags)]))

    @property
    def all_comments(self) -> tuple[NoteComment, ...]:
        """The comments on the rollout, then those on its turns."""
        return (*self.comments, *(comment for _, notes in self.turns for comment in notes.comments))

    def of_turn(self, turn: int) -> TurnNotes:
        """The notes on a turn, counted from 1."""
        return dict(self.turns).get(turn, _NONE)


NO_NOTES = RolloutNotes()
_NONE, _ITSELF = TurnNotes(), 0
"""No notes; and the number under which a rollout's own notes are held beside those of its turns."""


class RunNotes:
    """All notes of a run. Blocking; a file that cannot be read is no error, see `problem`."""

    def __init__(self, directory: Path) -> None:
        self._file = NoteFile(directory)
        self._parts: dict[tuple[str, int], dict[int, TurnNotes]] = {}
        self.version = 0
        """Increases with every change that `refresh` finds."""
        self.changed: set[tuple[str, int]] = set()
        """Rollout ids and attempts whose notes the latest `refresh` changed."""
        self._tags: tuple[int, Counter[str]] = (0, Counter())
        """The version whose tags were counted last, and their counts."""

    @classmethod
    def read(cls, directory: Path | str) -> Self:
        """The notes of the run in a directory, as of now."""
        notes = cls(Path(directory))
        notes.refresh()
        return notes

    def refresh(self) -> bool:
        """Read what was added since; return whether anything changed."""
        is_void, lines = self._file.read()
        self.changed = set(self._parts) if is_void else set()
        if is_void:
            self._parts.clear()
        for line in lines:
            self._take(line)
        self.version += bool(self.changed)
        return bool(self.changed)

    @property
    def problem(self) -> str | None:
        """Why notes may be missing, in a sentence for people; None if none are."""
        return self._file.problem

    def of(self, rollout_id: str, attempt: int = 0) -> RolloutNotes:
        """The notes on an attempt at a rollout; without any, they are empty and false."""
        parts = self._parts.get((rollout_id, attempt))
        if not parts:
            return NO_NOTES
        own = parts.get(_ITSELF, _NONE)
        turns = tuple((turn, parts[turn]) for turn in sorted(parts) if turn != _ITSELF and parts[turn])
        return RolloutNotes(own.tags, own.is_starred, own.comments, own.reviews, turns)

    def __iter__(self) -> Iterator[tuple[str, int, RolloutNotes]]:
        """Rollout id, attempt and notes of all that have any."""
        for rollout_id, attempt in self._parts:
            if notes := self.of(rollout_id, attempt):
                yield rollout_id, attempt, notes

    def tags(self) -> Counter[str]:
        """Tag → number of rollouts that have it, themselves or in a turn; counted once for each version."""
        if self._tags[0] != self.version:
            self._tags = self.version, Counter(tag for _, _, notes in self for tag in notes.all_tags)
        return self._tags[1]

    def _take(self, line: NoteLine) -> None:
        key, turn = (line.rollout[:_MOST_ID], line.attempt), line.turn or _ITSELF
        parts = self._parts.setdefault(key, {})
        held = parts.get(turn, _NONE)
        if turn < _ITSELF or (turn not in parts and len(parts) > MOST_TURNS):
            return
        parts[turn] = _changed(held, line)
        if parts[turn] != held:
            self.changed.add(key)


def _changed(held: TurnNotes, line: NoteLine) -> TurnNotes:
    """Notes after a change."""
    by, at = one_line(line.by, NAME_CHARACTERS), line.at if 0 <= line.at <= _LATEST else 0.0
    tags, comments, reviews = held.tags, held.comments, held.reviews
    if line.tags or line.untags:
        removed = {_tag(tag) for tag in line.untags}
        kept = [tag for tag in tags if tag not in removed]
        tags = tuple(tag for tag in dict.fromkeys([*kept, *map(_tag, line.tags[:MOST_TAGS])]) if tag)[:MOST_TAGS]
    if line.comment and len(comments) < MOST_COMMENTS and (text := _comment(line.comment)):
        comments = (*comments, NoteComment(text, by, at))
    if line.reviewed:
        reviews = (*(each for each in reviews if each.by != by), NoteReview(by, at))[-MOST_REVIEWS:]
    elif line.reviewed is not None:
        reviews = ()
    is_starred = held.is_starred if line.star is None else line.star
    return TurnNotes(tags, is_starred, comments, reviews)


def _tag(text: str) -> str:
    return one_line(text, TAG_CHARACTERS)


def _comment(text: str) -> str:
    return plain(text[:COMMENT_CHARACTERS]).strip()


def user_name() -> str:
    """The system's name of who runs this process; a dash if it has none."""
    try:
        return one_line(getpass.getuser(), NAME_CHARACTERS) or "–"
    except (OSError, KeyError):  # a container's user without an entry
        return "–"


def add(directory: Path | str, *changes: NoteChange, by: str | None = None) -> None:
    """Add notes to a run, all at once; `by` is who writes them, the system's user by default. Blocks.

    Whether the run has these rollouts and turns is for the caller to check.

    Raises:
        UsageError: a tag, a comment or a name is empty or too long, or a change changes nothing.
        RunDirectoryError: the run's directory cannot be written.
        StoreError: the disk or the file of notes is full, or others keep it locked.
    """
    name = user_name() if by is None else _named(by)
    append_lines(Path(directory), [_line(change, name) for change in changes])


def _named(by: str) -> str:
    name = one_line(by, NAME_CHARACTERS + 1)
    if not 0 < len(name) <= NAME_CHARACTERS:
        raise UsageError(f"a note's writer has a name of 1 to {NAME_CHARACTERS} characters, not {by!r:.80}")
    return name


def checked_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags as they are kept: on one line, without control characters.

    Raises:
        UsageError: one is empty or too long, or there are too many.
    """
    if len(tags) > MOST_TAGS:
        raise UsageError(f"a rollout or turn has {MOST_TAGS} tags at most, not {len(tags)}")
    cleaned = tuple(one_line(tag, TAG_CHARACTERS + 1) for tag in tags)
    for tag, given in zip(cleaned, tags, strict=True):
        if not 0 < len(tag) <= TAG_CHARACTERS:
            raise UsageError(f"a tag has 1 to {TAG_CHARACTERS} characters, not {len(given)}: {given!r:.80}")
    return cleaned


def split_tags(text: str) -> tuple[str, ...]:
    """The tags that a person wrote with commas between them; a dash alone is none.

    Raises:
        UsageError: as for `checked_tags`.
    """
    parts = [part.strip() for part in text.split(",")]
    return () if text.strip() == "-" else checked_tags([part for part in parts if part])


def retagged(on: NoteChange, held: tuple[str, ...], wanted: tuple[str, ...]) -> NoteChange | None:
    """The change from the tags that something has to those it should have; None if they are the same."""
    added = tuple(tag for tag in wanted if tag not in held)
    removed = tuple(tag for tag in held if tag not in wanted)
    return replace(on, tags=added, untags=removed) if added or removed else None


def checked_comment(text: str) -> str:
    """A comment as it is kept: without control characters, but with its lines.

    Raises:
        UsageError: it is empty or too long.
    """
    if len(text) > COMMENT_CHARACTERS:
        raise UsageError(f"a comment has {COMMENT_CHARACTERS:,} characters at most, not {len(text):,}")
    if not (cleaned := _comment(text)):
        raise UsageError("a comment needs some text")
    return cleaned


def _line(change: NoteChange, by: str) -> NoteLine:
    if change.turn is not None and change.turn < 1:
        raise UsageError(f"turns are counted from 1; there is no turn {change.turn}")
    if not (change.tags or change.untags) and (change.star, change.comment, change.reviewed) == (None, None, None):
        raise UsageError("nothing to note: give a tag, a star, a comment, or that it was reviewed")
    return NoteLine(
        at=round(time.time(), 3),
        by=by,
        rollout=change.rollout_id,
        attempt=change.attempt,
        turn=change.turn,
        tags=list(checked_tags(change.tags)),
        untags=list(checked_tags(change.untags)),
        star=change.star,
        comment=None if change.comment is None else checked_comment(change.comment),
        reviewed=change.reviewed,
    )
