"""The notes of a rollout, above its tabs; and which rollout of a list a person reviews next."""

from rich.text import Text
from textual.widgets import Static

from rollouthub.live.follow import RolloutList, RunFeed
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


def next_unreviewed(feed: RunFeed, among: RolloutList, place: int, stood: int) -> int | None:
    """The row that follows one in a list and that nobody reviewed, wrapping around; None without any.

    `stood` is the row's last position, in case that it has left the list.
    """
    among.catch_up()
    at = among.position(place)
    start = stood if at is None else at + 1
    following = [*among.page(start, len(among)), *among.page(0, start)]
    return next((each for each in following if not feed.columns.notes_at(each).is_reviewed), None)
