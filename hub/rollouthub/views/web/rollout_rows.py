"""The table of rollouts: verdict, task, figures, and what was asked, answered and said of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.filter import quoted_text
from rollouthub.live.follow.note_columns import noted_flag
from rollouthub.live.follow.row_previews import CHARACTERS, RowPreview
from rollouthub.statistics.amounts import NONE, dollars, seconds, short
from rollouthub.text import one_line, plain_name
from rollouthub.views.markup import Markup, join, tag
from rollouthub.views.note_words import note_mark
from rollouthub.views.web.links import ALL, Links
from rollouthub.views.web.row_query import AUTO, RowQuery
from rollouthub.views.web.verdict_marks import mark, reward, verdict_at

PAGE_ROWS = 100
"""Rollouts on a page."""
MOST_ROWS_AT_ONCE = 400
_MOST_TAGS = 12
"""Most tags that have a link, those of most rollouts."""
_Cell = Callable[[AttemptColumns, int], "str | Markup"]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table."""

    name: str
    title: str
    sort: str | None = None
    """Name of the column to sort by; None if the table cannot be sorted by it."""
    is_number: bool = False


_COLUMNS = (
    TableColumn("verdict", "verdict", "outcome"),
    TableColumn("task", "task", "task_id"),
    TableColumn("environment", "environment", "environment"),
    TableColumn("sample", "sample", "sample", is_number=True),
    TableColumn("attempt", "attempt", "attempt", is_number=True),
    TableColumn("reward", "reward", "reward", is_number=True),
    TableColumn("turns", "turns", "turns", is_number=True),
    TableColumn("tokens", "tokens out", "output_tokens", is_number=True),
    TableColumn("time", "time", "seconds", is_number=True),
    TableColumn("cost", "cost", "cost", is_number=True),
    TableColumn("why", "why"),
    TableColumn("notes", "notes", "tag"),
    TableColumn("prompt", "prompt"),
    TableColumn("answer", "answer"),
    TableColumn("feedback", "feedback"),
    TableColumn("review", "review"),
)
SORTS = {AUTO: "task and sample", "seq": "finished", **{each.sort: each.title for each in _COLUMNS if each.sort}}
"""What the table can be sorted by → its title; while the run plays, `AUTO` is the newest first."""


class ShownRows(Protocol):
    """Rows of a run in an order."""

    def __len__(self) -> int: ...

    def page(self, start: int, stop: int) -> list[int]:
        """The row indices at positions from `start` up to, but not including, `stop`."""
        ...


def shown_columns(
    feed: RunFeed, query: RowQuery, form_key: str = "", *, is_one_task: bool = False
) -> list[TableColumn]:
    """The columns that a run needs; without the key of forms, none that has one, and of one task no prompt."""
    is_there = {
        "environment": len(feed.columns.words["environment"].vocabulary) > 1,
        "attempt": query.attempts,
        "cost": feed.counts.cost is not None and not query.review,
        "tokens": not query.review,
        "time": not query.review,
        "prompt": not is_one_task,
        "why": query.review,
        "notes": any(True for _ in feed.notes),
        "review": query.review and form_key != "",
    }
    return [column for column in _COLUMNS if is_there.get(column.name, True)]


@dataclass(frozen=True)
class RowMaker:
    """Makes the rows of one run's table."""

    feed: RunFeed
    run: str
    """The run's name in addresses."""
    links: Links
    query: RowQuery
    form_key: str = ""
    """The key of the forms in a queue of reviews; empty where there are none."""
    is_one_task: bool = False
    """Whether all rows are samples of one task, whose page has the prompt."""

    def table(self, rows: ShownRows, start: int, stop: int) -> Markup:
        """The table with the rows at these positions."""
        columns = shown_columns(self.feed, self.query, self.form_key, is_one_task=self.is_one_task)
        heads = [self._head(column) for column in columns]
        body = tag("tbody", self.rows(rows, start, stop))
        table = tag(
            "table",
            tag("caption", "Rollouts", class_="sr"),
            tag("thead", tag("tr", heads)),
            body,
            class_="rollouts",
            id="rows",
            aria_rowcount=str(len(rows) + 1),
            data_total=str(len(rows)),
            data_first=str(start),
        )
        return tag("div", table, class_="rows")

    def rows(self, rows: ShownRows, start: int, stop: int) -> list[Markup]:
        """The rows at these positions."""
        places = rows.page(start, stop)
        columns = shown_columns(self.feed, self.query, self.form_key, is_one_task=self.is_one_task)
        # A page has thousands of cells of a dozen columns: what they have in common is made once.
        openings = [(column.name, tag("td", class_=_class(column), data_title=column.title)[:-5]) for column in columns]
        previews = self.feed.previews(places)
        return [
            self._row(openings, place, preview, start + at)
            for at, (place, preview) in enumerate(zip(places, previews, strict=True))
        ]

    def _head(self, column: TableColumn) -> Markup:
        is_sorted = column.sort is not None and self.query.sort == column.sort
        order = ("descending" if self.query.descending else "ascending") if is_sorted else None
        inner: str | Markup = column.title
        if column.sort is not None and not self.links.is_static:
            arrow = {"descending": " ▼", "ascending": " ▲"}.get(order or "")
            address = self.links.run(self.run, self.query.sorted_by(column.sort))
            inner = tag("a", column.title, tag("span", arrow, aria_hidden="true") if arrow else None, href=address)
        return tag("th", inner, scope="col", class_=_class(column), aria_sort=order)

    def _row(self, openings: Sequence[tuple[str, str]], place: int, preview: RowPreview, position: int) -> Markup:
        cells = "".join([f"{opening}{join(self._cell(name, place, preview))}</td>" for name, opening in openings])
        counts = bool(self.feed.columns.effective[place])
        return tag("tr", Markup(cells), aria_rowindex=str(position + 2), class_=None if counts else "replaced")

    def _cell(self, name: str, place: int, preview: RowPreview) -> "str | Markup":
        if name == "answer" and preview.answer and len(preview.answer) < CHARACTERS:
            return tag("bdi", preview.answer)  # where it does not fit, its end is shown: answers differ there
        if name in ("prompt", "answer", "feedback"):
            return getattr(preview, name) or NONE
        columns = self.feed.columns
        if name == "why":
            return ", ".join(self.feed.review.reasons(place))
        if name == "notes":
            return note_mark(columns.notes_at(place))
        if name == "review":
            return self._reviewed(place)
        if name == "task":
            rollout, attempt = columns.texts["rollout_id"][place], columns.wholes["attempt"][place]
            which = None if columns.effective[place] else attempt
            address = self.links.rollout(self.run, rollout, which, self.query)
            return _linked(plain_name(columns.words["task_id"][place] or rollout), address)
        return _CELLS[name](columns, place)

    def _reviewed(self, place: int) -> Markup:
        """The form that marks a row as reviewed, and comes back to the list."""
        columns = self.feed.columns
        rollout, attempt = columns.texts["rollout_id"][place], columns.wholes["attempt"][place]
        hidden = {"key": self.form_key, "do": "reviewed", "back": "list"}
        fields = [tag("input", type="hidden", name=name, value=value) for name, value in hidden.items()]
        button = tag(
            "button",
            "✓",
            type="submit",
            title="Reviewed (v)",
            data_key="v",
            aria_label=f"Reviewed: {plain_name(rollout)}",
        )
        return tag(
            "form", fields, button, method="post", action=self.links.note(self.run, rollout, attempt, query=self.query)
        )


def _linked(text: str, address: str | None) -> "str | Markup":
    return text if address is None else tag("a", text, href=address)


def _class(column: TableColumn) -> str:
    return f"c-{column.name} n" if column.is_number else f"c-{column.name}"


def _real(name: str, write: Callable[[float | None], str]) -> _Cell:
    def cell(columns: AttemptColumns, place: int) -> str:
        value = columns.numbers[name][place]
        return write(value if value == value else None)

    return cell


def _reward(columns: AttemptColumns, place: int) -> Markup:
    value = columns.numbers["reward"][place]
    return reward(value if value == value else None)


_CELLS: dict[str, _Cell] = {
    "verdict": lambda columns, place: mark(verdict_at(columns, place), counts=bool(columns.effective[place])),
    "environment": lambda columns, place: plain_name(columns.words["environment"][place] or NONE),
    "sample": lambda columns, place: str(columns.wholes["sample"][place]),
    "attempt": lambda columns, place: str(columns.wholes["attempt"][place]),
    "reward": _reward,
    "turns": lambda columns, place: str(columns.wholes["turns"][place]),
    "tokens": lambda columns, place: short(columns.wholes["output_tokens"][place]),
    "time": _real("seconds", seconds),
    "cost": _real("cost", dollars),
}


def pages(links: Links, run: str, query: RowQuery, start: int, total: int) -> Markup | None:
    """Links to the other pages of the table; None if there is one page."""
    if total <= PAGE_ROWS:
        return None
    last = (total - 1) // PAGE_ROWS * PAGE_ROWS
    targets = (
        ("First", 0, start > 0),
        ("Previous", max(0, start - PAGE_ROWS), start > 0),
        ("Next", start + PAGE_ROWS, start + PAGE_ROWS < total),
        ("Last", last, start + PAGE_ROWS < total),
    )
    items = [
        tag("li", tag("a", name, href=links.run(run, query, offset)) if is_there else tag("span", name, class_="soft"))
        for name, offset, is_there in targets
    ]
    where = tag("span", f"{start + 1:,}–{min(total, start + PAGE_ROWS):,} of {total:,}", class_="soft")
    return tag("nav", where, tag("ul", items), class_="pages", aria_label="Pages of the table")


def filter_form(links: Links, run: str, query: RowQuery, problem: tuple[str, int] | None) -> Markup:
    """The form that filters and sorts; `problem` is what is wrong with the filter, and where it begins."""
    said: Markup | None = None
    if problem is not None:
        words, column = problem
        caret = f"{query.filter[:200]}\n{' ' * min(column, 200)}^" if column >= 0 else ""
        said = tag(
            "div", tag("p", words), tag("pre", caret) if caret else None, class_="problem", id="problem", role="alert"
        )
    field = tag(
        "input",
        type="search",
        name="filter",
        id="filter",
        value=query.filter,
        placeholder='reward < 0.5 and turns > 3, task ~ "algebra", passed == false …',
        autocomplete="off",
        spellcheck="false",
        aria_invalid="true" if problem else None,
        aria_describedby="problem" if problem else None,
    )
    search = tag(
        "input", type="search", name="search", id="search", value=query.search, placeholder="task, id, fault",
        autocomplete="off", spellcheck="false",
    )  # fmt: skip
    sorts = [tag("option", title, value=name, selected=name == query.sort) for name, title in SORTS.items()]
    orders = [
        tag("option", title, value=name, selected=(name == "down") == query.descending)
        for name, title in (("down", "descending"), ("up", "ascending"))
    ]
    return tag(
        "form",
        tag("div", tag("label", "Filter", for_="filter"), field, class_="grow"),
        tag("div", tag("label", "Search", for_="search"), search),
        tag("div", tag("label", "Sort", for_="sort"), tag("select", sorts, name="sort", id="sort")),
        tag("div", tag("label", "Order", for_="order"), tag("select", orders, name="order", id="order")),
        tag("input", type="hidden", name="attempts", value="all") if query.attempts else None,
        tag("input", type="hidden", name="review", value="yes") if query.review else None,
        tag("input", type="hidden", name="reason", value=query.reason) if query.reason else None,
        tag("button", "Show", type="submit"),
        said,
        action=links.run(run),
        role="search",
        class_="filter",
    )


def quick_filters(feed: RunFeed, links: Links, run: str, query: RowQuery) -> Markup:
    """Filters that people use most, and the tags, each a link with its number of rollouts."""
    items: list[Markup] = []
    filters = [(name, text, number(feed)) for name, (text, number) in QUICK.items()]
    tags = feed.notes.tags().most_common(_MOST_TAGS)
    filters += [(f"#{one_line(each, 40)}", f"tag == {quoted_text(each)}", count) for each, count in tags]
    for name, text, count in filters:
        if count or not text:
            found = replace(ALL, filter=text, sort=query.sort, descending=query.descending)
            inner = (f"{name} ", tag("span", f"{count:,}", class_="soft"))
            current = "true" if (query.filter, query.search) == (text, "") else None
            items.append(tag("li", tag("a", *inner, href=links.run(run, found), aria_current=current)))
    return tag("ul", items, class_="quick", id="quick", aria_label="Quick filters")


def _at_limits(feed: RunFeed) -> int:
    return sum(count for stop, count in feed.counts.stops.items() if "limit" in stop)


QUICK: dict[str, tuple[str, Callable[[RunFeed], int]]] = {
    "All": ("", lambda feed: feed.counts.effective),
    "Not passed": ("passed == false", lambda feed: feed.counts.judged - feed.counts.passed),
    "Passed": ("passed", lambda feed: feed.counts.passed),
    "Unscored": ('outcome != "scored"', lambda feed: feed.counts.effective - feed.counts.scored),
    "Suspect": ("suspect", lambda feed: feed.counts.suspects),
    "Starred": ("starred", lambda feed: sum(noted_flag("starred", notes) for _, _, notes in feed.notes)),
    "At a limit": ('stop ~ "limit"', _at_limits),
}
"""Name of a quick filter → its expression, and its number of rollouts."""


def empty(query: RowQuery, feed: RunFeed, links: Links, run: str) -> Markup:
    """What is said in place of a table without rows."""
    if not len(feed.columns):
        return tag("p", "Nothing has ended yet.", class_="soft")
    back = tag("a", "Show all", href=links.run(run, ALL))
    return tag("p", join("No rollout fits. ", back), class_="soft")
