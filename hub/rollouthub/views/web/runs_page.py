"""The list of runs: state, what plays what, progress, reward; any of them can be compared."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, cast
from urllib.parse import urlencode

from rollouthub.live.follow import SeenRun
from rollouthub.live.follow.fuzzy import closeness
from rollouthub.live.follow.run_tallies import Tally
from rollouthub.rollout import OutcomeKind
from rollouthub.statistics.amounts import NONE, elapsed, moment, number, share
from rollouthub.store import BrokenRun, RunInfo
from rollouthub.text import one_line, plain_name
from rollouthub.views.markup import Markup, tag
from rollouthub.views.report.charts import ending_parts
from rollouthub.views.report.svg_charts import shares
from rollouthub.views.web.links import Links
from rollouthub.views.web.page_frame import page
from rollouthub.views.web.verdict_marks import status

PAGE_RUNS = 100
MOST_SEARCHED = 200
_WORDS = {"mean": "mean reward", "pass": "pass rate"}


class RunLine:
    """What the list says of one run."""

    def __init__(self, run: SeenRun, name: str, tally: Tally | None) -> None:
        """`name` is the run's name in addresses."""
        self.run, self.name, self.tally = run, name, tally
        asked: dict[str, Any] = {}
        if isinstance(run.info, RunInfo) and isinstance(run.info.resolved.get("request"), dict):
            asked = cast("dict[str, Any]", run.info.resolved["request"])
        named = cast("list[Any]", asked["environments"]) if isinstance(asked.get("environments"), list) else []
        self.environments = ", ".join(plain_name(PurePath(str(each)).name or str(each)) for each in named[:6]) or NONE
        self.agent = plain_name(str(asked.get("agent") or NONE))
        self.model = plain_name(str(asked.get("model") or NONE))

    @property
    def text(self) -> str:
        """What a search looks through."""
        return f"{self.name} {self.environments} {self.agent} {self.model}"


@dataclass(frozen=True)
class RunsQuery:
    """Which runs are listed and in which order, as the query of the list's URL says it."""

    search: str = ""
    sort: str = ""
    """Name of a column of `SORTS`; empty for live ones first, then the newest, or with a search what fits best."""
    descending: bool = False

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> "RunsQuery":
        """Read a URL's query; what it does not name, and a column that there is not, has its default."""
        sort = sort if (sort := asked.get("sort", "")) in _KEYS else ""
        order = asked.get("order", "down" if sort in _GREATEST_FIRST else "up")
        return cls(asked.get("search", "").strip()[:MOST_SEARCHED], sort, order == "down")

    def written(self, offset: int = 0) -> str:
        """The query as text, with its question mark; empty if all has its default."""
        asked = {"search": self.search, "sort": self.sort, "offset": str(offset or "")}
        if self.sort:
            asked["order"] = "down" if self.descending else "up"
        found = {name: value for name, value in asked.items() if value}
        return f"?{urlencode(found)}" if found else ""

    def sorted_by(self, sort: str) -> "RunsQuery":
        """The list in the order of a column; the other way round if it is in its order already."""
        descending = not self.descending if sort == self.sort else sort in _GREATEST_FIRST
        return replace(self, sort=sort, descending=descending)


def found_lines(lines: Sequence[RunLine], query: RunsQuery) -> list[RunLine]:
    """The runs that fit a search in an order; those without a value come last, in either direction."""
    found = list(lines)
    if query.search:
        near = [(closeness(query.search, line.text), line) for line in lines]
        fitting = [(score, line) for score, line in near if score is not None]
        found = [line for _, line in sorted(fitting, key=lambda pair: -pair[0])]
    if query.sort:
        key = _KEYS[query.sort]
        keyed = [(value, line) for line in found if (value := key(line)) is not None]
        absent = [line for line in found if key(line) is None]
        keyed.sort(key=lambda pair: pair[0], reverse=query.descending)
        found = [*(line for _, line in keyed), *absent]
    return found


def _info(line: RunLine) -> RunInfo | None:
    return line.run.info if isinstance(line.run.info, RunInfo) else None


_KEYS: dict[str, Callable[[RunLine], Any]] = {
    "state": lambda line: info.status if (info := _info(line)) else None,
    "run": lambda line: line.name.casefold(),
    "environment": lambda line: line.environments.casefold(),
    "model": lambda line: line.model.casefold(),
    "done": lambda line: line.tally and line.tally.done,
    "mean": lambda line: line.tally and line.tally.mean_reward,
    "pass": lambda line: line.tally and line.tally.pass_rate,
    "began": lambda line: info.created_at if (info := _info(line)) else None,
    "took": lambda line: (
        line.tally.seconds if line.tally and (info := _info(line)) and info.status != "running" else None
    ),
}
"""Column → its value for a run; None without one."""
_GREATEST_FIRST = ("done", "mean", "pass", "began", "took")


def runs_page(
    lines: Sequence[RunLine],
    query: RunsQuery,
    start: int,
    links: Links,
    *,
    events: str | None = None,
    problems: Sequence[str] = (),
    is_partial: bool = False,
) -> str:
    """The page of all runs; `is_partial` says that figures are still being read."""
    found = found_lines(lines, query)
    shown = found[start : start + PAGE_RUNS]
    titles = (
        "compare",
        "state",
        "run",
        "environment",
        "model",
        "done",
        "ended",
        "mean reward",
        "pass rate",
        "began",
        "took",
    )
    titles = titles[1:] if links.is_static else titles
    heads = [_head(title, query, links) for title in titles]
    rows = [_row(line, links) for line in shown]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="runs", id="runs")
    counts = f"{len(found):,} of {len(lines):,} runs" if query.search else f"{len(lines):,} runs"
    parts: list[Markup | None] = [
        tag("h1", "Runs"),
        _search(query, links) if not links.is_static else None,
        tag("p", tag("a", "Leaderboard", href=board)) if lines and (board := links.board()) else None,
        tag("p", counts, ", figures are being read …" if is_partial else None, class_="soft", id="status"),
    ]
    if not lines:
        parts.append(tag("p", "There are no runs here yet; make one with: ", tag("code", "hub run arithmetic")))
    elif not found:
        parts.append(tag("p", "No run fits. ", tag("a", "Show all", href=links.runs())))
    else:
        parts.append(_comparing(table, links, len(found)))
        parts.append(_pages(query, start, len(found), links))
    parts += [tag("p", one_line(problem), class_="notice warn") for problem in problems[:5]]
    return page("Runs", *parts, links=links, crumbs=[("runs", None)], kind="runs", events=events)


def _comparing(table: Markup, links: Links, count: int) -> Markup:
    inner = tag("div", table, class_="wide", tabindex="0", role="group", aria_label="Runs")
    if links.is_static:
        address = links.compare([])
        link = tag("p", tag("a", "Compare them", href=address)) if address else None
        return tag("section", inner, link, class_="list")
    button = tag("p", tag("button", "Compare the marked runs", type="submit")) if count > 1 else None
    return tag("section", tag("form", inner, button, action=links.compare([])), class_="list")


def _head(title: str, query: RunsQuery, links: Links) -> Markup:
    name = title.split()[0]
    inner: Markup | str = tag("span", title, class_="sr") if title == "compare" else title
    is_sorted = name == query.sort
    if name in _KEYS and not links.is_static:
        arrow = tag("span", " ▼" if query.descending else " ▲", aria_hidden="true") if is_sorted else None
        inner = tag("a", title, arrow, href=f"{links.runs()}{query.sorted_by(name).written()}")
    order = ("descending" if query.descending else "ascending") if is_sorted else None
    return tag("th", inner, scope="col", class_=f"c-{name}", aria_sort=order)


def _search(query: RunsQuery, links: Links) -> Markup:
    field = tag(
        "input", type="search", name="search", id="filter", value=query.search, autocomplete="off", spellcheck="false",
        placeholder="name, environment, model",
    )  # fmt: skip
    sorts = {"": "live, newest", **{name: _WORDS.get(name, name) for name in _KEYS}}
    orders = {"up": "ascending", "down": "descending"}
    choices = (("sort", "Sort", sorts, query.sort), ("order", "Order", orders, "down" if query.descending else "up"))
    chosen = [
        tag(
            "div",
            tag("label", title, for_=name),
            tag(
                "select",
                [tag("option", words, value=each, selected=each == now) for each, words in given.items()],
                name=name,
                id=name,
            ),
        )
        for name, title, given, now in choices
    ]
    label = tag("label", "Search", for_="filter")
    inner = (tag("div", label, field, class_="grow"), *chosen, tag("button", "Show", type="submit"))
    return tag("form", *inner, action=links.runs(), role="search", class_="filter")


def _row(line: RunLine, links: Links) -> Markup:
    run, info = line.run, line.run.info
    name = plain_name(run.name) or "(no name)"
    cells: list[tuple[str, str | Markup | None]] = []
    if not links.is_static:
        box = tag("input", type="checkbox", name="run", value=line.name, aria_label=f"Compare {name}")
        cells.append(("compare", box if isinstance(info, RunInfo) else None))
    if isinstance(info, BrokenRun):
        cells += [("state", tag("span", "✗ unreadable", class_="status t-red")), ("run", name)]
        problem = tag("td", one_line(info.problem), class_="soft", colspan="8")
        return tag("tr", [tag("td", cell, class_=f"c-{title}") for title, cell in cells], problem)
    view, tally = run.view, line.tally
    planned = info.planned if view is None or view.planned is None else view.planned
    done = NONE if tally is None or tally.done is None else f"{tally.done:,}"
    took = NONE if info.status == "running" or tally is None else elapsed(tally.seconds)
    cells += [
        ("state", status(info.status, view.status if view else None)),
        ("run", tag("a", name, href=links.run(line.name))),
        ("environment", line.environments),
        ("model", line.model),
        ("done", done if planned is None else f"{done}/{planned:,}"),
        ("ended", _strip(tally, planned)),
        ("mean", NONE if tally is None else number(tally.mean_reward)),
        ("pass", NONE if tally is None else share(tally.pass_rate)),
        ("began", moment(info.created_at)),
        ("took", took),
    ]
    return tag("tr", [tag("td", cell, class_=f"c-{title}", data_title=title) for title, cell in cells])


def _strip(tally: Tally | None, planned: int | None) -> Markup | None:
    """How the rollouts ended, as a small bar."""
    if tally is None or tally.done is None:
        return None
    kinds: Mapping[OutcomeKind, int] = tally.kinds or {"scored": tally.scored}
    parts = ending_parts(kinds.items(), tally.judged, tally.passed, max(0, (planned or 0) - tally.done))
    return shares("How rollouts ended", parts) if parts else None


def _pages(query: RunsQuery, start: int, total: int, links: Links) -> Markup | None:
    if total <= PAGE_RUNS or links.is_static:
        return None
    items = [
        tag("li", tag("a", name, href=f"{links.runs()}{query.written(at)}"))
        for name, at in (("Previous", start - PAGE_RUNS), ("Next", start + PAGE_RUNS))
        if 0 <= at < total
    ]
    return tag("nav", tag("ul", items), class_="pages", aria_label="Pages of the list")
