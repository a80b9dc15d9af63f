"""The notes of a rollout, above its tabs."""

from rich.text import Text
from textual.widgets import Static

from rollouthub.store.notes import NO_NOTES, RolloutNotes
from rollouthub.text import one_line
from rollouthub.views.note_words import note_lines


class NotesLine(Static):
    """The notes in at most four lines; it takes no room without any."""

    DEFAULT_CSS = """
    NotesLine { display: none; height: auto; max-height: 4; padding: 0 1; color: $text-warning; }
    NotesLine.-noted { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.notes = NO_NOTES

    def show(self, notes: RolloutNotes) -> None:
        """Show other notes."""
        if notes != self.notes:
            self.notes = notes
            self.set_class(bool(notes), "-noted")
            self.update(Text("\n".join(map(one_line, note_lines(notes)))))
