"""The tasks of a run, those that tell most first; and the samples of one task."""

from rollouthub.errors import UnknownNameError
from rollouthub.live.follow.group_tables import GroupLine, Order
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import NONE, number, seconds, share, short
from rollouthub.text import plain_name
from rollouthub.views.cards.blocks import MediaBlock
from rollouthub.views.cards.card import SpeechCard
from rollouthub.views.cards.card_html import cards_html
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.rollout_cards import RolloutCards
from rollouthub.views.markup import Markup, tag
from rollouthub.views.web.links import Links
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page
from rollouthub.views.web.rollout_rows import RowMaker
from rollouthub.views.web.row_query import RowQuery
from rollouthub.views.web.run_page import heading, title_of
from rollouthub.views.web.verdict_marks import reward

PAGE_TASKS = 200
MOST_SAMPLES = 500
ORDERS: dict[str, tuple[str, Order, bool]] = {
    "mixed": ("most mixed", "deviation", True),
    "lowest": ("lowest mean", "mean_reward", False),
    "highest": ("highest mean", "mean_reward", True),
    "met": ("as they came", "met", False),
}
"""Name of an order in addresses → its title, the column, and whether it descends."""
_FIGURES = ("scored", "passed", "mean reward", "std of rewards", "output tokens")


def tasks_page(opened: OpenedRun, order: str, start: int, links: Links) -> str:
    """The page with all tasks."""
    feed, run = opened.feed, opened.name
    title, by, descending = ORDERS.get(order, ORDERS["mixed"])
    places = feed.groups.places(by, descending=descending)
    start = min(max(0, start), max(0, len(places) - 1)) // PAGE_TASKS * PAGE_TASKS
    lines = [feed.groups.line(place) for place in places[start : start + PAGE_TASKS]]
    several = len(feed.columns.words["environment"].vocabulary) > 1
    rows = [tag("tr", _cells(line, run, links, several)) for line in lines]
    heads = [
        "task",
        *(["environment"] if several else []),
        *_FIGURES,
    ]
    table = tag(
        "table",
        tag(
            "thead",
            tag(
                "tr",
                [
                    tag("th", head, scope="col", class_=_classes(head) if at > several else None)
                    for at, head in enumerate(heads)
                ],
            ),
        ),
        tag("tbody", rows),
        class_="tasks",
    )
    crumbs: list[Crumb] = [("runs", links.runs()), (run, links.run(run)), ("tasks", None)]
    section = tag(
        "section",
        tag("h2", f"{len(places):,} tasks, {title} first"),
        None if links.is_static else _orders(links, run, order),
        tag("div", table, class_="wide", tabindex="0", role="group", aria_label="Tasks"),
        tag("p", "Output tokens are the sum over a task's samples.", class_="soft small"),
        _pages(links, run, order, start, len(places)),
    )
    shown = f"Tasks of {title_of(feed.info)}"
    return page(shown, heading(opened, links, "tasks"), section, links=links, crumbs=crumbs, kind="tasks")


def _cells(line: GroupLine, run: str, links: Links, several: bool) -> list[Markup]:
    counts = line.counts
    name, address = plain_name(line.task_id or line.name), links.task(run, line.name)
    passed = NONE if counts.passed is None else f"{counts.passed:,} ({share(line.pass_rate)})"
    words: list[str | Markup] = [f"{counts.scored:,}/{counts.planned:,}", passed, reward(line.mean_reward)]
    words += [number(line.deviation), short(line.output_tokens)]
    first = tag("td", tag("a", name, href=address) if address else name, class_="c-task")
    where = [tag("td", plain_name(line.environment))] if several else []
    figures = [tag("td", word, class_=_classes(head)) for word, head in zip(words, _FIGURES, strict=True)]
    return [first, *where, *figures]


def _classes(head: str) -> str:
    return "c-tokens n" if head == _FIGURES[-1] else "n"


def _orders(links: Links, run: str, order: str) -> Markup:
    address = links.part(run, "tasks")
    items = [
        tag("li", tag("a", title, href=f"{address}?order={name}", aria_current="true" if name == order else None))
        for name, (title, _, _) in ORDERS.items()
    ]
    return tag("ul", items, class_="quick", aria_label="Order of the tasks")


def _pages(links: Links, run: str, order: str, start: int, total: int) -> Markup | None:
    if total <= PAGE_TASKS or links.is_static:
        return None
    address = links.part(run, "tasks")
    items = [
        tag("li", tag("a", name, href=f"{address}?order={order}&offset={at}"))
        for name, at in (("Previous", start - PAGE_TASKS), ("Next", start + PAGE_TASKS))
        if 0 <= at < total
    ]
    where = tag("span", f"{start + 1:,}–{min(total, start + PAGE_TASKS):,} of {total:,}", class_="soft")
    return tag("nav", where, tag("ul", items), class_="pages", aria_label="Pages of the table")


class SampleRows(list[int]):
    """The rows of one task."""

    def page(self, start: int, stop: int) -> list[int]:
        """The row indices at positions from `start` up to, but not including, `stop`."""
        return self[start:stop]


def task_page(opened: OpenedRun, group: str, links: Links) -> str:
    """The page of one task: its figures and its samples.

    Raises:
        UnknownNameError: the run has no such task.
    """
    feed, run = opened.feed, opened.name
    line = feed.groups.find(group)
    if line is None:
        raise UnknownNameError("task", group, ())
    query = RowQuery(sort="sample", descending=False, attempts=True)
    columns, groups = feed.columns, feed.columns.words["group_id"]
    samples = columns.wholes["sample"]
    rows = sorted(groups.rows(groups.code(group)), key=lambda at: samples[at])
    maker = RowMaker(feed, run, links, query, is_one_task=True)
    name = plain_name(line.task_id or group)
    crumbs: list[Crumb] = [
        ("runs", links.runs()),
        (run, links.run(run)),
        ("tasks", links.part(run, "tasks")),
        (name, None),
    ]
    counts = line.counts
    took = [columns.numbers["seconds"][at] for at in rows if columns.effective[at]]
    tiles = [
        ("mean reward", number(line.mean_reward), f"of {counts.scored:,} scored"),
        (
            "passed",
            NONE if counts.passed is None else f"{counts.passed:,} of {counts.verdicts:,}",
            share(line.pass_rate),
        ),
        ("std of rewards", number(line.deviation), "at 0 it teaches nothing" if line.deviation == 0 else ""),
        ("time", seconds(sum(took) / len(took) if took else None), "mean of a sample"),
    ]
    parts = [
        tag("div", tag("span", title), tag("b", value), tag("span", below), class_="tile")
        for title, value, below in tiles
    ]
    head = tag("header", tag("h1", name), tag("p", plain_name(line.environment), class_="soft"), class_="run-head")
    table = maker.table(SampleRows(rows), 0, MOST_SAMPLES)
    (first,) = feed.records(rows[:1]) if rows else (None,)
    return page(
        f"{name} · {plain_name(run)}",
        head,
        tag("div", parts, class_="tiles"),
        None if first is None else _asked(first, run, links),
        tag("section", tag("h2", "Samples and their attempts"), table, class_="list"),
        links=links,
        crumbs=crumbs,
        kind="task",
    )


def _asked(rollout: Rollout, run: str, links: Links) -> Markup | None:
    """What the task asks, in full: its samples are all asked the same."""
    if not rollout.turns:
        return None

    def media(mime_type: str, digest: str) -> MediaBlock:
        return MediaBlock(plain_name(mime_type), digest, links.media(run, digest))

    cards = RolloutCards(rollout, CardText(media=media)).cards_of(rollout.turns[0])
    asked = [card for card in cards if isinstance(card, SpeechCard) and card.is_prompt]
    return tag("section", tag("h2", "Prompt"), tag("div", cards_html(asked), class_="cards")) if asked else None
