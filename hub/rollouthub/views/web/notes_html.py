"""Notes of people on the page of a rollout and beside its turns, with the forms that add to them."""

from dataclasses import dataclass, replace

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count
from rollouthub.store.note_file import why_not_written
from rollouthub.store.notes import COMMENT_CHARACTERS, NO_NOTES, NoteComment, RolloutNotes, TurnNotes, user_name
from rollouthub.text import plain, plain_name
from rollouthub.views.markup import Markup, tag
from rollouthub.views.note_words import turn_note_lines
from rollouthub.views.web.links import Links
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.row_query import RowQuery

MOST_COMMENTS, MOST_CHARACTERS = 20, 4000
"""Most comments that are shown of a rollout or of a turn, the latest, and most characters of one."""
_MOST_TURN_CHARACTERS = 400_000
"""Characters of notes on turns after which further turns only say that they have some."""
_TAGS_CHARACTERS = 4000


def shown_notes(notes: TurnNotes) -> Markup | None:
    """The notes on a rollout itself, or on one turn, as the terminal words them; None without any."""
    comments = notes.comments[-MOST_COMMENTS:]
    left_out = len(notes.comments) - len(comments)
    cut = tuple(NoteComment(plain(each.text, MOST_CHARACTERS), each.by, each.at) for each in comments)
    lines = list(turn_note_lines(TurnNotes(notes.tags, notes.is_starred, cut, notes.reviews)))
    if left_out:
        lines.append(f"{count(left_out, 'earlier comment')}: `hub note` shows all")
    return tag("div", "\n".join(lines), class_="noted") if lines else None


@dataclass(frozen=True, slots=True)
class NotedPlace:
    """What a note is about."""

    rollout_id: str
    attempt: int
    turn: int | None = None
    """The turn, counted from 1; None for the rollout itself."""

    def held(self, notes: RolloutNotes) -> TurnNotes:
        """The notes on it, of those on its rollout and all turns."""
        return notes if self.turn is None else notes.of_turn(self.turn)


def note_forms(
    run: OpenedRun, place: NotedPlace, held: TurnNotes, links: Links, key: str, query: RowQuery, *, kept: str = ""
) -> Markup:
    """The forms that note something; `kept` is a comment that could not be written. Where nothing can, the reason."""
    if (reason := why_not_written(run.watched.directory)) is not None:
        return tag("p", plain(reason), class_="soft small")
    address = links.note(run.name, place.rollout_id, place.attempt, place.turn, query)

    def form(*inner: Markup, class_: str | None = None) -> Markup:
        hidden = tag("input", type="hidden", name="key", value=key)
        return tag("form", hidden, *inner, method="post", action=address, class_=class_)

    star = ("unstar", "★ Remove the star") if held.is_starred else ("star", "☆ Star")
    review = ("unreviewed", "Not reviewed") if held.reviews else ("reviewed", "✓ Reviewed, next")
    buttons = [
        tag("button", words, type="submit", name="do", value=name, data_key=shortcut)
        for (name, words), shortcut in ((star, "*"), (review, "v"))
    ]
    in_use = ", ".join(plain_name(name) for name, _ in run.feed.notes.tags().most_common(8))
    editable = [plain_name(name) for name in held.tags if "," not in name]  # a comma is between tags here
    tags = tag(
        "input", name="text", id="tags", value=", ".join(editable), maxlength=str(_TAGS_CHARACTERS),
        autocomplete="off", data_key="#", placeholder=f"in use: {in_use}" if in_use else "with commas between them",
    )  # fmt: skip
    comment = tag(
        "textarea", kept, name="text", id="comment", rows="3", maxlength=str(COMMENT_CHARACTERS), required=True,
        data_key="c",
    )  # fmt: skip
    fields = (
        form(
            tag("label", "Tags ", for_="tags"),
            tags,
            tag("input", type="hidden", name="held", value="\n".join(editable)),
            tag("button", "Set tags", type="submit", name="do", value="tags"),
        ),
        form(
            tag("label", "Comment ", for_="comment"),
            comment,
            tag("button", f"Add, as {user_name()}", type="submit", name="do", value="comment"),
        ),
    )
    more = tag("details", tag("summary", "Tags and comment"), *fields, open=bool(kept) or place.turn is not None)
    return tag("div", form(*buttons, class_="inline"), more, class_="note-forms")


class PageNotes:
    """The notes on one rollout for its page."""

    def __init__(self, run: OpenedRun, rollout: Rollout, links: Links, query: RowQuery, key: str = "") -> None:
        """`key` is that of the forms; pages that are files have none."""
        self._run, self._links, self._query, self._key = run, links, query, key
        self._place = NotedPlace(rollout.rollout_id, rollout.attempt)
        self._notes = run.feed.notes.of(rollout.rollout_id, rollout.attempt)
        self._room = _MOST_TURN_CHARACTERS

    def section(self) -> Markup | None:
        """The notes on the rollout itself, and the forms; None where pages are files and nothing is noted."""
        shown = shown_notes(self._notes)
        if self._links.is_static:
            return tag("section", shown, class_="notes", id="notes", aria_label="Notes") if shown else None
        forms = note_forms(self._run, self._place, self._notes, self._links, self._key, self._query)
        problem = self._run.feed.notes.problem
        said = [problem] if problem else []
        if self._run.feed.info.read_from is not None:
            said.append(
                "These are another tool's files: notes are kept with the copy in the cache and go with it; "
                "`hub export` keeps them."
            )
        notices = [tag("p", plain(each), class_="soft small") for each in said]
        return tag("section", shown, forms, notices, class_="notes", id="notes", aria_label="Notes")

    def of_turn(self, turn: int) -> Markup | None:
        """The notes on a turn, counted from 1, and the way to write one."""
        held = self._notes.of_turn(turn) if self._notes is not NO_NOTES else NO_NOTES
        shown = shown_notes(held) if held else None
        if shown is not None and len(shown) > self._room:
            shown = tag(
                "p", "Notes on this turn are too much for one page; `hub note` shows them.", class_="soft small"
            )
        self._room -= len(shown or "")
        link: Markup | None = None
        if not self._links.is_static:
            place = replace(self._place, turn=turn)
            address = self._links.note(self._run.name, place.rollout_id, place.attempt, turn, self._query)
            link = tag("a", "Note …", href=address, class_="note-link", aria_label=f"Note on turn {turn}")
        return tag("div", shown, link, class_="turn-notes") if shown or link else None
