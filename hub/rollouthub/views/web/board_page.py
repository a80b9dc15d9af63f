"""The leaderboard over runs, and the page of the receipt of one."""

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from rollouthub.analysis.compare.board import BoardRow
from rollouthub.analysis.compare.receipt_check import ReceiptCheck
from rollouthub.statistics import Estimate
from rollouthub.statistics.amounts import NONE, count, dollars, interval, moment, number, share
from rollouthub.text import one_line, plain, plain_name
from rollouthub.views.markup import Markup, join, tag
from rollouthub.views.web.kept_boards import Board
from rollouthub.views.web.links import Links
from rollouthub.views.web.page_frame import Crumb, page
from rollouthub.views.web.verdict_marks import status

MOST_ROWS = 2000
_TITLES: dict[str, str] = {
    "place": "", "run": "run", "model": "model", "agent": "agent", "mean": "mean reward", "pass": "pass rate",
    "scored": "scored", "cost": "cost", "receipt": "receipt", "played": "played",
}  # fmt: skip
"""Name of a column → its title."""
_NUMBERS = ("mean", "pass", "scored", "cost")
_WORDS = {"refuted": "✗ refuted", "proven": "✓ proven", "consistent": "~ consistent", "not_provable": "? not provable"}
_COLOURS = {"refuted": "t-red", "proven": "t-green", "consistent": "t-cyan", "not_provable": "t-yellow"}


def board_page(board: Board, name_of: Callable[[Path], str], links: Links) -> str:
    """The page with a table for each set of tasks; `name_of` gives a run's name in addresses."""
    parts: list[Markup | None] = [
        tag("h1", "Leaderboard"),
        tag(
            "p",
            "Rows are beside each other only where the same tasks were played, by their content. Mean reward "
            "and pass rate are over scored rollouts; their 95 % intervals are over tasks.",
            class_="soft",
        ),
    ]
    if board.unread:
        parts.append(tag("p", f"{count(board.unread, 'run')} still to be read …", class_="notice", role="status"))
    shown = _shown_columns(board.rows)
    for (environment, tasks), each in groupby(board.rows[:MOST_ROWS], key=lambda row: (row.environment, row.task_set)):
        parts.append(_section(environment, tasks, list(each), board, name_of, links, shown))
    if not board.rows and not board.unread:
        parts.append(tag("p", "There are no runs with rollouts here yet.", class_="soft"))
    if len(board.rows) > MOST_ROWS:
        parts.append(
            tag("p", f"and {len(board.rows) - MOST_ROWS:,} more rows; name the runs to compare", class_="soft")
        )
    parts += [tag("p", one_line(problem, 600), class_="notice warn") for problem in board.problems[:20]]
    crumbs: list[Crumb] = [("runs", links.runs()), ("leaderboard", None)]
    again = bool(board.unread) and not links.is_static
    return page("Leaderboard", *parts, links=links, crumbs=crumbs, kind="board", again=again)


def _section(
    environment: str,
    tasks: str,
    rows: Sequence[BoardRow],
    board: Board,
    name_of: Callable[[Path], str],
    links: Links,
    shown: Sequence[str],
) -> Markup:
    heads = [
        tag("th", _TITLES[name] or tag("span", name, class_="sr"), scope="col", class_=_class(name)) for name in shown
    ]
    lines = [tag("tr", _cells(at, row, board, name_of, links, shown)) for at, row in enumerate(rows)]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", lines), class_="board")
    versions = len({version for row in rows for version in row.versions})
    note = f"{versions} versions of the environment were played: figures of one are no figures of another."
    return tag(
        "section",
        tag("h2", f"{plain_name(environment)}: {count(rows[0].tasks, 'task')}"),
        tag("p", "tasks ", tag("code", tasks[:19]), class_="soft small"),
        tag("div", table, class_="wide", tabindex="0", role="group", aria_label=f"Runs on {plain_name(environment)}"),
        tag("p", note, class_="notice warn") if versions > 1 else None,
        class_="list",
    )


def _shown_columns(rows: Sequence[BoardRow]) -> list[str]:
    """The columns of every table of the page: none that is empty in all of them."""
    is_there = {
        "cost": any(row.cost is not None for row in rows),
        "receipt": any(row.receipt != "none" for row in rows),
    }
    return [name for name in _TITLES if is_there.get(name, True)]


def _class(name: str) -> str:
    return f"c-{name} n" if name in _NUMBERS else f"c-{name}"


def _cells(
    place: int, row: BoardRow, board: Board, name_of: Callable[[Path], str], links: Links, shown: Sequence[str]
) -> list[Markup]:
    directory = Path(row.run)
    run = name_of(directory)
    scored = f"{row.scored:,} of {row.planned:,}"
    words: dict[str, str | Markup] = {
        "place": str(place + 1),
        "run": join(tag("a", plain_name(directory.name) or run, href=links.run(run)), " ", status(row.status)),
        "model": plain_name(row.model or NONE),
        "agent": plain_name(row.agent or NONE),
        "mean": _estimate(row.mean_reward, is_share=False),
        "pass": _estimate(row.pass_rate, is_share=True),
        "scored": scored if row.coverage is None or row.coverage >= 1 else tag("span", scored, class_="t-yellow"),
        "cost": dollars(row.cost),
        "receipt": _receipt(row, run, board.checks.get(row.run), links),
        "played": moment(row.created_at),
    }
    return [tag("td", words[name], class_=_class(name)) for name in shown]


def _estimate(found: Estimate | None, *, is_share: bool) -> str | Markup:
    if found is None or found.value is None:
        return NONE
    write = share if is_share else number
    return join(tag("b", write(found.value)), " ", tag("span", interval(found, write), class_="soft small"))


def _receipt(row: BoardRow, run: str, check: ReceiptCheck | None, links: Links) -> str | Markup:
    if row.receipt == "none":
        return tag("span", "none", class_="soft")
    return join(_state(check), " ", tag("a", "receipt", href=links.receipt(run)))


def _state(check: ReceiptCheck | None) -> Markup:
    if check is None:
        return tag("span", "unchecked", class_="soft")
    if check.problem is not None:
        return tag("span", "? could not be checked", class_="t-yellow", title=check.problem)
    if check.is_refuted:
        return tag("span", "✗ refuted", class_="t-red")
    return tag("span", "✓ not refuted", class_="t-green")


def receipt_page(run: str, check: ReceiptCheck, links: Links) -> str:
    """What `hub verify` says of a run's receipt."""
    title = f"Receipt of {plain_name(run)}"
    rows = [
        tag(
            "tr",
            tag("td", _WORDS.get(claim.verdict, claim.verdict), class_=_COLOURS.get(claim.verdict)),
            tag("td", plain_name(claim.name)),
            tag("td", plain(claim.said)),
        )
        for claim in check.claims
    ]
    table = tag("table", tag("tbody", rows), class_="claims") if rows else None
    section = tag(
        "section",
        tag("p", _state(check), f", signed by key {check.key}" if check.key else None),
        tag("p", check.problem, class_="notice warn") if check.problem else None,
        tag("div", table, class_="wide", tabindex="0", role="group", aria_label="Claims"),
        tag(
            "p",
            "Checked here and offline: digests, counts and signature. Nothing was played again; ",
            tag("code", "hub verify --replay"),
            " does that.",
            class_="soft small",
        ),
    )
    crumbs: list[Crumb] = [("runs", links.runs()), (run, links.run(run)), ("receipt", None)]
    return page(title, tag("h1", title), section, links=links, crumbs=crumbs, kind="receipt")
