"""The page that takes notes on a rollout or on one of its turns, and what a sent form does."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import anyio.to_thread

from rollouthub.errors import UnknownNameError, UsageError
from rollouthub.store.notes import NoteChange, TurnNotes, add, retagged, split_tags
from rollouthub.text import plain, plain_name
from rollouthub.views.markup import tag
from rollouthub.views.web.links import Links
from rollouthub.views.web.notes_html import NotedPlace, note_forms, shown_notes
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page
from rollouthub.views.web.rollout_rows import PAGE_ROWS
from rollouthub.views.web.row_query import RowQuery

KINDS = ("star", "unstar", "tags", "comment", "reviewed", "unreviewed")
"""What a form may do."""


def noted_row(run: OpenedRun, place: NotedPlace) -> int:
    """The row of what a note is about; only inside `read`.

    Raises:
        UnknownNameError: the run has no such record, or the record no such turn.
    """
    columns = run.feed.columns
    at = run.place_of(place.rollout_id, place.attempt)
    if at is None:
        raise UnknownNameError("attempt of a rollout", f"{place.rollout_id[:400]}, {place.attempt}", ())
    if place.turn is not None and not 1 <= place.turn <= columns.wholes["turns"][at]:
        raise UnknownNameError("turn", str(place.turn), ())
    return at


def change_of(place: NotedPlace, form: Mapping[str, str], held: TurnNotes) -> NoteChange | None:
    """What a form changes; None if that is nothing.

    Raises:
        UsageError: a tag or a comment is not valid, or the form does what there is not.
    """
    on = NoteChange(place.rollout_id, place.attempt, place.turn)
    text = form.get("text", "").replace("\r\n", "\n")
    match form.get("do", ""):
        case "star" | "unstar" as kind:
            return replace(on, star=kind == "star")
        case "reviewed" | "unreviewed" as kind:
            return replace(on, reviewed=kind == "reviewed")
        case "comment":
            return replace(on, comment=text)
        case "tags":
            # Of those that the page showed: what others added since stays.
            named = {plain_name(each): each for each in held.tags}
            shown = [each for each in form.get("held", "").replace("\r\n", "\n").split("\n") if each in named]
            wanted = tuple(named.get(each, each) for each in split_tags(text))
            return retagged(on, tuple(named[each] for each in shown), wanted)
        case other:
            raise UsageError(f"no note is named {other[:40]!r}; there are {', '.join(KINDS)}")


async def take_note(run: OpenedRun, place: NotedPlace, form: Mapping[str, str], links: Links, query: RowQuery) -> str:
    """Write what a form says, and return the address of the page to show then: of a review, that of the next rollout
    of the list that nobody reviewed.

    Raises:
        UsageError: the note is not valid, or the run cannot be written.
        StoreError: the note could not be written.
        UnknownNameError: there is no such rollout or turn.
    """

    def look(opened: OpenedRun) -> tuple[NoteChange | None, str]:
        at = noted_row(opened, place)
        held = place.held(opened.feed.columns.notes_at(at))
        change = change_of(place, form, held)
        goes_on = change is not None and change.reviewed is True and place.turn is None
        if goes_on:
            onward = _list_page if form.get("back") == "list" else _next_page
            return change, onward(opened, at, links, query)
        return change, _same_page(opened, place, at, links, query)

    change, address = await run.read(look)
    if change is not None:
        await anyio.to_thread.run_sync(partial(add, run.watched.directory, change))
        await run.watched.beside(run.watched.refresh)
    return address


def _same_page(run: OpenedRun, place: NotedPlace, at: int, links: Links, query: RowQuery) -> str:
    attempt = None if run.feed.columns.effective[at] else place.attempt
    if place.turn is not None:
        return links.rollout(run.name, place.rollout_id, attempt, query, turn=place.turn - 1) or links.run(run.name)
    return f"{links.rollout(run.name, place.rollout_id, attempt, query)}#notes"


def _list_page(run: OpenedRun, at: int, links: Links, query: RowQuery) -> str:
    """The list, at the position of a row that leaves it."""
    position = run.lists.find(query).rows.position(at) or 0
    return f"{links.run(run.name, query, position // PAGE_ROWS * PAGE_ROWS)}#at-{position}"


def _next_page(run: OpenedRun, at: int, links: Links, query: RowQuery) -> str:
    """The page of the next rollout that nobody reviewed, from the one at a row on; that of the list without any."""
    rows, columns = run.lists.find(query).rows, run.feed.columns
    position = rows.position(at)
    after = 0 if position is None else position + 1
    for each in (*rows.page(after, len(rows)), *rows.page(0, after)):
        if each != at and not columns.notes_at(each).is_reviewed:
            attempt = None if columns.effective[each] else columns.wholes["attempt"][each]
            return links.rollout(run.name, columns.texts["rollout_id"][each], attempt, query) or links.run(run.name)
    return links.run(run.name, query)


def note_page(
    run: OpenedRun, place: NotedPlace, links: Links, key: str, query: RowQuery, *, wrong: str = "", kept: str = ""
) -> str:
    """The page with the notes on a rollout or a turn, and the forms; `wrong` says what is wrong with what was sent.

    Raises:
        UnknownNameError: there is no such rollout or turn.
    """
    at = noted_row(run, place)
    held = place.held(run.feed.columns.notes_at(at))
    task = plain_name(run.feed.columns.words["task_id"][at] or place.rollout_id)
    title = f"Notes on {f'turn {place.turn} of ' if place.turn else ''}{task}, {plain_name(place.rollout_id)[:8]}"
    back = _same_page(run, place, at, links, query)
    section = tag(
        "section",
        tag("h1", title),
        tag("p", plain(wrong, 2000), class_="problem", role="alert", id="wrong") if wrong else None,
        shown_notes(held) or tag("p", "Nothing is noted.", class_="soft"),
        note_forms(run, place, held, links, key, query, kept=kept),
        tag("p", tag("a", "Back", href=back, class_="button")),
        class_="notes",
    )
    crumbs: list[Crumb] = [
        ("runs", links.runs()),
        (run.name, links.run(run.name, query)),
        (task, back),
        ("notes", None),
    ]
    return page(title, section, links=links, crumbs=crumbs, kind="note")
