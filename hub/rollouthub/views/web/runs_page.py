"""The list of runs: state, what plays what, progress, reward; any of them can be compared."""

from collections.abc import Mapping, Sequence
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


def found_lines(lines: Sequence[RunLine], search: str) -> list[RunLine]:
    """The runs that fit a search, those that fit best first."""
    words = search.strip()[:MOST_SEARCHED]
    if not words:
        return list(lines)
    scored = [(score, at) for at, line in enumerate(lines) if (score := closeness(words, line.text)) is not None]
    return [lines[at] for _, at in sorted(scored, key=lambda pair: (-pair[0], pair[1]))]


def runs_page(
    lines: Sequence[RunLine],
    search: str,
    start: int,
    links: Links,
    *,
    events: str | None = None,
    problems: Sequence[str] = (),
    is_partial: bool = False,
) -> str:
    """The page of all runs; `is_partial` says that figures are still being read."""
    found = found_lines(lines, search)
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
    heads = [
        tag(
            "th",
            tag("span", title, class_="sr" if title == "compare" else None),
            scope="col",
            class_=f"c-{title.split()[0]}",
        )
        for title in titles
    ]
    rows = [_row(line, links) for line in shown]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="runs", id="runs")
    counts = f"{len(found):,} of {len(lines):,} runs" if search else f"{len(lines):,} runs"
    parts: list[Markup | None] = [
        tag("h1", "Runs"),
        _search(search, links) if not links.is_static else None,
        tag("p", tag("a", "Leaderboard", href=board)) if lines and (board := links.board()) else None,
        tag("p", counts, ", figures are being read …" if is_partial else None, class_="soft", id="status"),
    ]
    if not lines:
        parts.append(tag("p", "There are no runs here yet; make one with: ", tag("code", "hub run arithmetic")))
    elif not found:
        parts.append(tag("p", "No run fits. ", tag("a", "Show all", href=links.runs())))
    else:
        parts.append(_comparing(table, links, len(found)))
        parts.append(_pages(search, start, len(found), links))
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


def _search(search: str, links: Links) -> Markup:
    field = tag(
        "input", type="search", name="search", id="filter", value=search, autocomplete="off", spellcheck="false",
        placeholder="name, environment, model",
    )  # fmt: skip
    label = tag("label", "Search", for_="filter")
    inner = (tag("div", label, field, class_="grow"), tag("button", "Show", type="submit"))
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


def _pages(search: str, start: int, total: int, links: Links) -> Markup | None:
    if total <= PAGE_RUNS or links.is_static:
        return None
    items = [
        tag("li", tag("a", name, href=f"{links.runs()}?{_asked(search, at)}"))
        for name, at in (("Previous", start - PAGE_RUNS), ("Next", start + PAGE_RUNS))
        if 0 <= at < total
    ]
    return tag("nav", tag("ul", items), class_="pages", aria_label="Pages of the list")


def _asked(search: str, offset: int) -> str:
    return urlencode({"search": search, "offset": offset})
