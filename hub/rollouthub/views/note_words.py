"""Notes in words, the same for every face. The text of people is shown harmless."""

from collections.abc import Iterator

from rollouthub.statistics.amounts import count, moment
from rollouthub.store.notes import RolloutNotes, TurnNotes
from rollouthub.text import one_line, printable

STAR, TICK = "★", "✓"


def note_mark(notes: RolloutNotes) -> str:
    """The notes of a rollout in a few words, for a cell of a list; empty without any."""
    parts = [STAR] if notes.is_starred or any(turn.is_starred for _, turn in notes.turns) else []
    parts += [TICK] if notes.is_reviewed else []
    if tags := notes.all_tags:
        parts.append(", ".join(map(one_line, tags)))
    if comments := len(notes.all_comments):
        parts.append(count(comments, "comment"))
    return " ".join(parts)


def note_facts(notes: RolloutNotes) -> list[str]:
    """What is noted of a rollout and its turns, in words for a sentence; empty without any."""
    facts = ["starred"] if notes.is_starred or any(turn.is_starred for _, turn in notes.turns) else []
    facts += ["reviewed"] if notes.is_reviewed else []
    facts += [f"tagged {one_line(tag)}" for tag in notes.all_tags]
    return facts + ([count(comments, "comment")] if (comments := len(notes.all_comments)) else [])


def note_lines(notes: RolloutNotes) -> Iterator[str]:
    """The notes of a rollout and of its turns, in lines; a comment has the lines that its writer gave it."""
    yield from turn_note_lines(notes)
    for turn, noted in notes.turns:
        yield from turn_note_lines(noted, f"turn {turn}: ")


def turn_note_lines(notes: TurnNotes, place: str = "") -> Iterator[str]:
    """The notes on one turn, or on a rollout itself, in lines that begin with a place."""
    facts = [f"{STAR} starred"] if notes.is_starred else []
    facts += [f"tags: {', '.join(map(one_line, notes.tags))}"] if notes.tags else []
    if notes.reviews:
        who = ", ".join(f"{one_line(review.by)} ({moment(review.at)})" for review in notes.reviews)
        facts.append(f"{TICK} reviewed by {who}")
    yield from (f"{place}{fact}" for fact in facts)
    for comment in notes.comments:
        first, *rest = printable(comment.text).split("\n")
        yield f"{place}{one_line(comment.by) or '–'}, {moment(comment.at)}: {first}"
        yield from (f"  {line}" for line in rest)
