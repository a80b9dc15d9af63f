"""The pages as an ASGI application: what each address shows, and what it refuses."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from rollouthub.analysis.compare.compared_run import ComparedTask
from rollouthub.errors import (
    HubError,
    LiveControlError,
    RunDirectoryError,
    StoreError,
    UnknownNameError,
    UsageError,
    said,
)
from rollouthub.http.page_guard import PageGuard
from rollouthub.live.control.live_views import RolloutDetails
from rollouthub.store import LiveState, RunInfo
from rollouthub.store.run_directories import RECEIPT_SUFFIX
from rollouthub.text import plain
from rollouthub.views.web.asked_number import asked_number
from rollouthub.views.web.board_page import board_page, receipt_page
from rollouthub.views.web.compare_page import KeptComparisons, compare_page, task_side, task_sides_page
from rollouthub.views.web.event_feed import EventFeed
from rollouthub.views.web.flight_page import flight_fragment, flight_page
from rollouthub.views.web.kept_boards import KeptBoards
from rollouthub.views.web.links import ServedLinks
from rollouthub.views.web.note_pages import NotePages
from rollouthub.views.web.notes_html import PageNotes
from rollouthub.views.web.opened_runs import OpenedRun, OpenedRuns
from rollouthub.views.web.page_frame import message_page
from rollouthub.views.web.posted_form import ForeignFormError, read_form
from rollouthub.views.web.report_page import report_page
from rollouthub.views.web.review_page import review_page
from rollouthub.views.web.rollout_page import read_rollout, rollout_json, rollout_page
from rollouthub.views.web.rollout_rows import MOST_ROWS_AT_ONCE, PAGE_ROWS
from rollouthub.views.web.row_query import RowQuery
from rollouthub.views.web.run_page import live_fragment, rows_fragment, run_page
from rollouthub.views.web.runs_page import RunLine, RunsQuery, runs_page
from rollouthub.views.web.served_media import served_media
from rollouthub.views.web.steering_page import ActionOrder, WebPerson, asking_page, done_page, perform
from rollouthub.views.web.tasks_page import task_page, tasks_page
from rollouthub.views.web.web_assets import SCRIPT, SCRIPT_FILE, STYLE, STYLE_FILE

_HTML = "text/html; charset=utf-8"
MOST_NAMED = 500
"""Most runs that an address of the leaderboard names."""

logger = logging.getLogger(__name__)
Handler = Callable[[Request], Awaitable[Response]]


class ViewPages:
    """The pages over some runs."""

    def __init__(self, runs: OpenedRuns, guard: PageGuard) -> None:
        self._runs, self._guard = runs, guard
        self._links = ServedLinks(guard.place)
        self._events = EventFeed(runs)
        self._boards, self._comparisons = KeptBoards(), KeptComparisons()
        self._reading = anyio.Lock()
        """Held while whole runs are read for a leaderboard or a comparison: each takes memory."""
        self._notes = NotePages(runs, guard, self._links)
        self.application = Starlette(routes=self._routes())

    def _routes(self) -> list[Route]:
        def page(path: str, handler: Handler, methods: Sequence[str] = ("GET",)) -> Route:
            return Route(self._guard.place + path, partial(self._answered, handler), methods=list(methods))

        run = "run/{run}"
        return [
            page("", self._list),
            page(STYLE_FILE, self._style),
            page(SCRIPT_FILE, self._script),
            page("events", self._list_events),
            page("compare", self._compare),
            page("board", self._board),
            page(run, self._run),
            page(f"{run}/rows", self._rows),
            page(f"{run}/live", self._live),
            page(f"{run}/events", self._run_events),
            page(f"{run}/tasks", self._tasks),
            page(f"{run}/report", self._report),
            page(f"{run}/receipt", self._receipt),
            page(f"{run}/task/{{group:path}}", self._task),
            page(f"{run}/rollout/{{rollout:path}}", self._rollout),
            page(f"{run}/media/{{digest}}", self._media),
            page(f"{run}/note", self._notes.ask),
            page(f"{run}/note", self._notes.write, ("POST",)),
            page(f"{run}/do/{{action}}", self._ask),
            page(f"{run}/do/{{action}}", self._do, ("POST",)),
        ]

    async def _answered(self, handler: Handler, request: Request) -> Response:
        """A handler's answer; a page that says why there is none, where there is none."""
        try:
            return await handler(request)
        except (UnknownNameError, RunDirectoryError) as error:
            return self._refusal(404, "There is no such page", error)
        except ForeignFormError as error:
            return self._refusal(403, "Not from this server's form", error)
        except UsageError as error:
            return self._refusal(400, "This cannot be shown", error)
        except LiveControlError as error:
            return self._refusal(409, "The run's hub did not do it", error)
        except (StoreError, OSError) as error:
            return self._refusal(503, "It cannot be read just now", error)
        except HubError as error:
            return self._refusal(500, "This cannot be shown", error)
        except Exception:  # the seam: one page that fails takes no other with it
            logger.exception("a page of hub view failed: %s", request.url.path.removeprefix(self._guard.place)[:200])
            return self._refusal(
                500, "This page failed", UsageError("that is a mistake of hub's; its log has the details")
            )

    def _refusal(self, status: int, title: str, error: BaseException) -> Response:
        return Response(message_page(self._links, title, plain(said(error), 4000)), status, media_type=_HTML)

    async def _list(self, request: Request) -> Response:
        runs = await self._runs.list()
        is_whole = await self._runs.read_tallies(runs)
        lines = [RunLine(run, self._runs.name_of(run.directory), self._runs.tally(run)) for run in runs]
        html = runs_page(
            lines,
            RunsQuery.of(request.query_params),
            asked_number(request, "offset", 0),
            self._links,
            events=f"{self._guard.place}events",
            problems=self._runs.problems,
            is_partial=not is_whole,
        )
        return Response(html, media_type=_HTML)

    async def _run(self, request: Request) -> Response:
        query, start = RowQuery.of(request.query_params), asked_number(request, "offset", 0)

        def made(opened: OpenedRun) -> str:
            events = self._events_of(opened)
            if query.review:
                return review_page(opened, query, start, self._links, events, self._guard.form_key)
            return run_page(opened, query, start, self._links, events)

        return await self._read(request, made)

    async def _rows(self, request: Request) -> Response:
        query, start = RowQuery.of(request.query_params), asked_number(request, "offset", 0)
        count = min(asked_number(request, "limit", PAGE_ROWS), MOST_ROWS_AT_ONCE)
        key = self._guard.form_key
        return await self._read(request, lambda opened: rows_fragment(opened, query, start, count, self._links, key))

    async def _live(self, request: Request) -> Response:
        query = RowQuery.of(request.query_params)
        return await self._read(request, lambda opened: live_fragment(opened, self._links, query))

    async def _tasks(self, request: Request) -> Response:
        order, start = request.query_params.get("order", "mixed"), asked_number(request, "offset", 0)
        return await self._read(request, lambda opened: tasks_page(opened, order, start, self._links))

    async def _task(self, request: Request) -> Response:
        group = request.path_params["group"]
        return await self._read(request, lambda opened: task_page(opened, group, self._links))

    async def _report(self, request: Request) -> Response:
        return await self._read(request, lambda opened: report_page(opened, self._links))

    async def _read(self, request: Request, make: Callable[[OpenedRun], str]) -> Response:
        async with self._runs.using(request.path_params["run"]) as opened:
            if RowQuery.of(request.query_params).review:
                await opened.feed.read_review()
            return Response(await opened.read(make), media_type=_HTML)

    async def _rollout(self, request: Request) -> Response:
        rollout_id, asked = request.path_params["rollout"], request.query_params
        query, attempt = RowQuery.of(asked), asked_number(request, "attempt", -1)
        async with self._runs.using(request.path_params["run"]) as opened:
            state = await opened.read(lambda run: _flying(run, rollout_id)) if attempt < 0 else None
            if state is not None:
                return await self._flight(opened, state, is_part=asked.get("part") == "live")

            if query.review:
                await opened.feed.read_review()

            def made(run: OpenedRun) -> Response:
                rollout, context = read_rollout(run, rollout_id, None if attempt < 0 else attempt, query)
                if asked.get("form") == "json":
                    return Response(rollout_json(rollout), media_type="application/json")
                notes = PageNotes(run, rollout, self._links, query, self._guard.form_key)
                has_all = asked.get("tokens") == "all"
                html = rollout_page(run, rollout, context, self._links, query, notes=notes, has_all_tokens=has_all)
                return Response(html, media_type=_HTML)

            return await opened.read(made)

    async def _flight(self, opened: OpenedRun, state: LiveState, *, is_part: bool) -> Response:
        shown: RolloutDetails | None = None
        if opened.watched.is_steered:
            try:
                shown = await opened.watched.ask(lambda hub: hub.show(state.rollout_id, content=True))
            except (LiveControlError, UsageError):
                shown = None  # it has just ended
        if is_part:
            return Response(flight_fragment(state, shown), media_type=_HTML)
        html = await opened.read(lambda run: flight_page(run, state, shown, self._links, self._events_of(run)))
        return Response(html, media_type=_HTML)

    async def _media(self, request: Request) -> Response:
        async with self._runs.using(request.path_params["run"]) as opened:
            digest = request.path_params["digest"]
            body, kind, headers = await anyio.to_thread.run_sync(served_media, opened.feed.reader, digest)
        return Response(body, headers=headers, media_type=kind)

    async def _compare(self, request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.getlist("run")))
        task = request.query_params.getlist("task")
        if len(names) < 2:
            raise UsageError("a comparison needs two runs or more; mark them in the list of runs")
        async with AsyncExitStack() as stack:
            runs = [await stack.enter_async_context(self._runs.using(name)) for name in names[:9]]
            if len(task) == len(ComparedTask._fields):
                key = ComparedTask(*task)
                sides = [
                    await run.read(partial(task_side, key=key, links=self._links, place=at))
                    for at, run in enumerate(runs)
                ]
                return Response(task_sides_page(sides, key, self._links), media_type=_HTML)
            async with self._reading:
                found = await anyio.to_thread.run_sync(self._comparisons.read, runs)
        return Response(compare_page(found, self._links), media_type=_HTML)

    async def _board(self, request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.getlist("run")))[:MOST_NAMED]
        if names:
            directories = [await self._runs.directory_of(name) for name in names]
        else:
            runs = await self._runs.list()
            directories = [run.directory.resolve() for run in runs if isinstance(run.info, RunInfo)]
        async with self._reading:
            board = await anyio.to_thread.run_sync(self._boards.read, directories)
        return Response(board_page(board, self._runs.name_of, self._links), media_type=_HTML)

    async def _receipt(self, request: Request) -> Response:
        name = request.path_params["run"]
        directory = await self._runs.directory_of(name)
        check = await self._boards.check(directory)
        if check is None:
            raise UnknownNameError("receipt", f"{name[:200]}{RECEIPT_SUFFIX}", (), "`hub attest RUN` writes one.")
        return Response(receipt_page(name, check, self._links), media_type=_HTML)

    async def _ask(self, request: Request) -> Response:
        order = ActionOrder.of(request.path_params["action"], request.query_params.get("rollout", ""))
        async with self._runs.using(request.path_params["run"]) as opened:
            person = WebPerson(has_agreed=False)
            reason = await perform(opened, order, person)
            html = asking_page(opened, order, person, self._links, self._guard.form_key, reason=reason)
        return Response(html, media_type=_HTML)

    async def _do(self, request: Request) -> Response:
        form = await read_form(request, self._guard)
        rollout_id = request.query_params.get("rollout", "")
        order = ActionOrder.of(request.path_params["action"], rollout_id, form.get("text", ""))
        async with self._runs.using(request.path_params["run"]) as opened:
            if wrong := order.wrong():
                person = WebPerson(has_agreed=False)
                key = self._guard.form_key
                html = asking_page(opened, order, person, self._links, key, reason=None, wrong=wrong)
                return Response(html, 400, media_type=_HTML)
            person = WebPerson(has_agreed=True)
            try:
                reason = await perform(opened, order, person)
            except (LiveControlError, UsageError) as error:
                reason = said(error)
            words = reason or " ".join(person.heard) or "Done."
            html = done_page(opened, order, plain(words, 2000), self._links, is_error=reason is not None)
        return Response(html, 200 if reason is None else 409, media_type=_HTML)

    def _events_of(self, opened: OpenedRun) -> str | None:
        """The address of a run's events; None for one that has ended."""
        return f"{self._links.part(opened.name, 'events')}" if opened.feed.info.status == "running" else None

    async def _list_events(self, request: Request) -> Response:
        return await self._stream(self._events.of_list())

    async def _run_events(self, request: Request) -> Response:
        name = request.path_params["run"]
        await self._runs.directory_of(name)
        return await self._stream(self._events.of_run(name))

    async def _stream(self, events: AsyncGenerator[bytes]) -> Response:
        if not self._events.has_room:
            return Response("too many pages are open that want to be told what is new\n", 503, media_type="text/plain")
        first = await anext(events)  # takes its place before another page asks for one

        async def told() -> AsyncGenerator[bytes]:
            async with aclosing(events):
                yield first
                async for event in events:
                    yield event

        return StreamingResponse(told(), headers={"X-Accel-Buffering": "no"}, media_type="text/event-stream")

    async def _style(self, request: Request) -> Response:
        return Response(STYLE, media_type="text/css; charset=utf-8")

    async def _script(self, request: Request) -> Response:
        return Response(SCRIPT, media_type="text/javascript; charset=utf-8")


def _flying(opened: OpenedRun, rollout_id: str) -> LiveState | None:
    return next((state for state in opened.feed.live if state.rollout_id == rollout_id), None)
