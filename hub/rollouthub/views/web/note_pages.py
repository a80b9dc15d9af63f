"""The addresses under which notes are taken: the page with the forms, and what they send."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rollouthub.errors import ConfigError, RunDirectoryError, StoreError, UnknownNameError, UsageError, said
from rollouthub.http.page_guard import PageGuard
from rollouthub.views.web.asked_number import asked_number
from rollouthub.views.web.links import Links
from rollouthub.views.web.note_page import note_page, take_note
from rollouthub.views.web.notes_html import NotedPlace
from rollouthub.views.web.opened_runs import OpenedRuns
from rollouthub.views.web.posted_form import read_form
from rollouthub.views.web.row_query import RowQuery


class NotePages:
    """Shows and takes the forms of notes."""

    def __init__(self, runs: OpenedRuns, guard: PageGuard, links: Links) -> None:
        self._runs, self._guard, self._links = runs, guard, links

    async def ask(self, request: Request) -> Response:
        """The page with the forms."""
        place, query = _place(request), RowQuery.of(request.query_params)
        async with self._runs.using(request.path_params["run"]) as opened:
            html = await opened.read(lambda run: note_page(run, place, self._links, self._guard.form_key, query))
        return Response(html, media_type="text/html; charset=utf-8")

    async def write(self, request: Request) -> Response:
        """Writes a note; leads on to the page that shows it."""
        form = await read_form(request, self._guard)
        place, query = _place(request), RowQuery.of(request.query_params)
        async with self._runs.using(request.path_params["run"]) as opened:
            if query.review:
                await opened.feed.read_review()
            try:
                address = await take_note(opened, place, form, self._links, query)
            except UnknownNameError:
                raise
            except (RunDirectoryError, StoreError, UsageError) as error:
                wrong, kept = said(error), form.get("text", "") if form.get("do") == "comment" else ""
                key = self._guard.form_key
                html = await opened.read(
                    lambda run: note_page(run, place, self._links, key, query, wrong=wrong, kept=kept)
                )
                status = 400 if isinstance(error, UsageError) and not isinstance(error, RunDirectoryError) else 409
                return Response(html, status, media_type="text/html; charset=utf-8")
        return RedirectResponse(address, 303)


def _place(request: Request) -> NotedPlace:
    """What a note is about, as the address says it.

    Raises:
        UsageError: the address names no rollout.
    """
    asked = request.query_params
    rollout, turn = asked.get("rollout", ""), asked_number(request, "turn", -1)
    if not rollout:
        raise ConfigError("a note is about a rollout: open its page")
    return NotedPlace(rollout, asked_number(request, "attempt", 0), None if turn < 0 else turn)
