"""The notes of a rollout, above its tabs."""

from rich.text import Text
from textual.widgets import Static

from rollouthub.statistics.amounts import count
from rollouthub.store.notes import NO_NOTES, RolloutNotes
from rollouthub.text import one_line
from rollouthub.views.note_words import turn_note_lines

_MOST_LINES = 4


class NotesLine(Static):
    """The notes in at most four lines, the last of which says how many more there are; no room without any."""

    DEFAULT_CSS = """
    NotesLine { display: none; height: auto; max-height: 4; padding: 0 1; color: $text-warning;
        text-wrap: nowrap; text-overflow: ellipsis; }
    NotesLine.-noted { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.notes = NO_NOTES

    def show(self, notes: RolloutNotes) -> bool:
        """Show other notes; returns whether they are others."""
        is_new = notes != self.notes
        if is_new:
            self.notes = notes
            self.set_class(bool(notes), "-noted")
            self.update(Text("\n".join(shown_notes(notes))))
        return is_new


def shown_notes(notes: RolloutNotes) -> list[str]:
    """The notes in at most four lines: those on the rollout, then which turns have some, which stand at the turns."""
    own = [one_line(line) for line in turn_note_lines(notes)]
    turns = [one_line(line) for turn, noted in notes.turns for line in turn_note_lines(noted, f"turn {turn}: ")]
    room = _MOST_LINES - bool(turns)
    if len(own) > room:
        left = len(own) - room + 1
        own = [*own[: room - 1], f"… {count(left, 'more line')}: c shows earlier comments"]
    return [*own, *([" · ".join(turns)] if turns else [])]
