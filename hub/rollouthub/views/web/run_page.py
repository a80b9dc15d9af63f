"""The page of a run: its figures, its charts, what is in flight, and the table of its rollouts."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from rollouthub.errors import UsageError
from rollouthub.live.follow import FilterError, RunFeed
from rollouthub.live.steering.availability import Action, situation, why_not
from rollouthub.statistics.amounts import NONE, clock, moment, short
from rollouthub.store import LiveState, RunInfo
from rollouthub.text import one_line, plain_name
from rollouthub.views.markup import Markup, join, tag
from rollouthub.views.web.links import Links
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page
from rollouthub.views.web.rollout_rows import PAGE_ROWS, RowMaker, empty, filter_form, pages, quick_filters
from rollouthub.views.web.row_query import FoundRows, RowQuery
from rollouthub.views.web.run_figures_html import charts, progress, tiles
from rollouthub.views.web.verdict_marks import status

REVIEW = RowQuery(review=True)
MOST_COUNTED = 2000
"""Attempts up to which a run's queue of reviews is read for its number alone."""
_DATE = len("2000-01-01 ")
MOST_IN_FLIGHT = 40
"""Rollouts in flight that are listed."""


def run_page(opened: OpenedRun, query: RowQuery, start: int, links: Links, events: str | None) -> str:
    """The whole page; `events` is the address of the run's events, while it plays."""
    feed, name = opened.feed, opened.name
    found = opened.lists.find(query)
    total = len(found.rows)
    start = min(max(0, start), max(0, total - 1)) // PAGE_ROWS * PAGE_ROWS
    maker = RowMaker(feed, name, links, query)
    listed = [
        filter_form(links, name, query, filter_problem(found)) if not links.is_static else None,
        quick_filters(feed, links, name, query) if not links.is_static else None,
        _narrowed(query, total, feed),
        maker.table(found.rows, start, start + PAGE_ROWS) if total else empty(query, feed, links, name),
        pages(links, name, query, start, total),
    ]
    shown = title_of(feed.info)
    crumbs: list[Crumb] = [("runs", links.runs()), (name, None)]
    return page(
        f"{shown} ({plain_name(name)})",
        heading(opened, links, "rollouts"),
        *live_parts(opened, links),
        tag("section", tag("h2", "Rollouts", id="rollouts", class_="sr"), *listed, class_="list"),
        links=links,
        crumbs=crumbs,
        kind="run",
        events=events,
    )


def _narrowed(query: RowQuery, total: int, feed: RunFeed) -> Markup | None:
    """What a filter or a search leaves, and that no other figure follows it."""
    if not (query.filter or query.search):
        return None
    of = f"{total:,} of {feed.counts.effective:,}" if not query.attempts else f"{total:,}"
    return tag(
        "p", f"{of} rollouts are listed; the figures and charts above are of the whole run.", class_="soft small"
    )


def filter_problem(found: FoundRows) -> tuple[str, int] | None:
    """What is wrong with a filter, and where it begins; None if nothing is."""
    match found.problem:
        case None:
            return None
        case FilterError() as error:
            return f"{error.problem} (at column {error.column + 1})", error.column
        case UsageError() as error:
            return str(error), -1


def live_parts(opened: OpenedRun, links: Links) -> list[Markup]:
    """The parts of the page that change while the run plays, each with an id."""
    feed, summary = opened.feed, opened.over_tasks()
    return [
        tag("div", tiles(feed, summary), id="figures"),
        tag("div", flight(opened, links), id="flight"),
        tag("div", charts(feed, summary, opened.rewards()), id="charts"),
    ]


def heading(opened: OpenedRun, links: Links, part: str) -> Markup:
    """The run's title, its state, what is to be known of it, and the ways to its other pages."""
    feed, name = opened.feed, opened.name
    info = feed.info
    view = opened.watched.view
    parts = (
        ("rollouts", links.run(name)),
        ("tasks", links.part(name, "tasks")),
        ("report", links.part(name, "report")),
        ("review", links.run(name, REVIEW)),
    )
    is_counted = feed.has_review or len(feed.columns) <= MOST_COUNTED
    counted = {"review": tag("span", f" {len(feed.review):,}", class_="soft")} if is_counted else {}
    tabs = [
        tag(
            "li",
            tag(
                "a",
                each.capitalize(),
                counted.get(each),
                href=address,
                aria_current="page" if each == part else None,
                data_key="V" if each == "review" else None,
            ),
        )
        for each, address in parts
    ]
    return tag(
        "header",
        tag("h1", title_of(info)),
        tag(
            "div",
            tag("p", status(info.status, view.status if view else None), tag("span", f" {about(info)}", class_="soft")),
            progress(feed.progress()),
            _notices(opened),
            id="status",
        ),
        steering(opened, links),
        tag("nav", tag("ul", tabs), class_="tabs", aria_label="Pages of the run"),
        class_="run-head",
    )


def title_of(info: RunInfo) -> str:
    """Which model, or agent, plays which environments."""
    asked = cast("dict[str, Any]", info.resolved.get("request") or {})
    environments = asked.get("environments")
    names = (
        [plain_name(str(each)) for each in cast("list[Any]", environments)] if isinstance(environments, list) else []
    )
    who = next((str(asked[key]) for key in ("model", "agent") if isinstance(asked.get(key), str)), info.directory.name)
    where = f" on {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" if names else ""
    return f"{plain_name(who)}{where}"


def about(info: RunInfo) -> str:
    """When and by what the run was played."""
    began, ended = moment(info.created_at), moment(info.finished_at)
    until = f" to {ended.removeprefix(began[:_DATE])}" if info.finished_at is not None else ""
    return f"{plain_name(info.run_id)} · {began}{until} · hub {plain_name(info.hub_version)}"


def _notices(opened: OpenedRun) -> list[Markup]:
    info, feed = opened.feed.info, opened.feed
    said: list[str] = []
    if opened.watched.problem:
        said.append(f"It could not be read just now: {one_line(opened.watched.problem)}")
    if info.status == "dead":
        said.append(
            "The process that played this run is gone. What is committed is kept; `hub run --resume` plays the rest."
        )
    if info.stopped:
        said.append(f"It stopped by itself: {one_line(info.stopped)}")
    unscored = feed.counts.effective - feed.counts.scored
    if unscored:
        said.append(f"{unscored:,} of {feed.counts.effective:,} rollouts have no score, which is not a zero.")
    if info.bad_rows:
        said.append(f"{info.bad_rows:,} rows of the data make no task, and were left out.")
    origin = [tag("p", one_line(each, 1000), class_="soft small") for each in info.origin_lines[:8]]
    return [*(tag("p", each, class_="notice warn") for each in said), *origin]


def steering(opened: OpenedRun, links: Links) -> Markup | None:
    """What a person may do with the run as a whole; None where nothing plays, or pages are files."""
    if links.is_static or opened.feed.info.status != "running":
        return None
    now = situation(opened.watched, None, is_web=True)
    words: dict[Action, str] = {
        "pause": "Resume …" if now.state == "paused" else "Pause …",
        "concurrency": f"Concurrency {NONE if now.concurrency is None else now.concurrency} …",
    }
    items: list[Markup] = []
    for action, word in words.items():
        reason = why_not(action, now)
        link = tag("a", word, href=links.action(opened.name, action), class_="button")
        items.append(tag("li", link if reason is None else tag("span", word, class_="button off", title=reason)))
    if reason := why_not("pause", now):
        items.append(tag("li", reason, class_="soft small"))
    return tag("ul", items, class_="steer", aria_label="Steer the run")


def flight(opened: OpenedRun, links: Links) -> Markup | None:
    """The rollouts in flight, those longest without news last, folded below one line with their states; None without
    any.
    """
    feed = opened.feed
    if not feed.live:
        return None
    plays, now = feed.info.status == "running", time.time()
    rows = [_flight_row(opened, links, state, now if plays else None) for state in feed.live[:MOST_IN_FLIGHT]]
    heads = [tag("th", title, scope="col") for title in ("state", "task", "sample", "turn", "tokens", "for")]
    more = len(feed.live) - len(rows)
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows))
    states = Counter(state.state for state in feed.live)
    told = ", ".join(f"{number:,} in {state}" for state, number in states.most_common())
    title = f"In flight: {len(feed.live):,}" if plays else f"Left unfinished: {len(feed.live):,}"
    return tag(
        "details",
        tag("summary", title, tag("span", told, class_="soft")),
        tag("div", table, class_="wide short", tabindex="0", role="group", aria_label="Rollouts in flight"),
        tag("p", f"and {more:,} more", class_="soft small") if more else None,
        class_="fold",
    )


def _flight_row(opened: OpenedRun, links: Links, state: LiveState, now: float | None) -> Markup:
    address = None if links.is_static else links.rollout(opened.name, state.rollout_id)
    name = plain_name(state.task_id)
    moved = NONE if now is None else clock(max(0.0, now - state.updated_at))
    cells: Sequence[str | Markup] = (
        tag("span", f"▸ {state.state}", class_="t-cyan"),
        name if address is None else tag("a", name, href=address),
        str(state.sample),
        str(state.turn),
        short(state.output_tokens),
        moved,
    )
    return tag("tr", [tag("td", cell) for cell in cells])


def rows_fragment(opened: OpenedRun, query: RowQuery, start: int, count: int, links: Links, form_key: str = "") -> str:
    """Rows of the table alone, as a document of their own that the script takes them from."""
    found = opened.lists.find(query)
    start = min(max(0, start), len(found.rows))
    maker = RowMaker(opened.feed, opened.name, links, query, form_key)
    return f"<!doctype html><title>rows</title>{maker.table(found.rows, start, start + count)}"


def live_fragment(opened: OpenedRun, links: Links, query: RowQuery) -> str:
    """The parts of the page that change while the run plays, as a document of their own."""
    feed: RunFeed = opened.feed
    total = len(opened.lists.find(query).rows)
    parts = join(
        heading(opened, links, "rollouts"), *live_parts(opened, links), quick_filters(feed, links, opened.name, query)
    )
    return f"<!doctype html><title>live</title><div id=live data-total={total}>{parts}</div>"
