"""The page with the rollouts of a run that a person should look at, each with the reason."""

from collections import Counter
from dataclasses import replace

from rollouthub.statistics.amounts import count
from rollouthub.text import plain_name
from rollouthub.views.markup import Markup, tag
from rollouthub.views.web.links import Links
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page
from rollouthub.views.web.rollout_rows import PAGE_ROWS, RowMaker, filter_form, pages
from rollouthub.views.web.row_query import RowQuery
from rollouthub.views.web.run_page import filter_problem, heading, title_of

_WHICH = (
    "Here are suspect scores, faults of verifiers, rewards of which judge and rule disagree, and samples whose "
    "verdict most others of their task contradict. Open one, and mark it as reviewed: the next one follows."
)


def review_page(
    opened: OpenedRun, query: RowQuery, start: int, links: Links, events: str | None, form_key: str = ""
) -> str:
    """The queue, the latest first; `form_key` is that of forms, empty where pages are files."""
    feed, name = opened.feed, opened.name
    found = opened.lists.find(query)
    total, queue = len(found.rows), feed.review
    start = min(max(0, start), max(0, total - 1)) // PAGE_ROWS * PAGE_ROWS
    title = f"{len(queue):,} of {queue.total:,} left to review" if queue.total else "Review"
    listed: list[Markup | None] = [
        filter_form(links, name, query, filter_problem(found)) if not links.is_static else None,
        RowMaker(feed, name, links, query, form_key).table(found.rows, start, start + PAGE_ROWS)
        if total
        else tag("p", _nothing(len(queue), queue.total), class_="soft", role="status"),
        pages(links, name, query, start, total),
    ]
    section = tag(
        "section",
        tag("h2", title),
        tag("p", _WHICH, class_="soft small"),
        _reasons(opened, query, links),
        *listed,
        class_="list",
    )
    crumbs: list[Crumb] = [("runs", links.runs()), (name, links.run(name)), ("review", None)]
    return page(
        f"Review of {title_of(feed.info)} ({plain_name(name)})",
        heading(opened, links, "review"),
        section,
        links=links,
        crumbs=crumbs,
        kind="run",
        events=events,
    )


def _reasons(opened: OpenedRun, query: RowQuery, links: Links) -> Markup | None:
    """The reasons, each with its number and, where there is a server, a link to what waits for it."""
    queue = opened.feed.review
    found = Counter(reason for place in queue.places for reason in queue.reasons(place))
    if not found:
        return None
    if links.is_static:
        return tag(
            "ul", [tag("li", f"{why} ", tag("b", f"{many:,}")) for why, many in found.most_common()], class_="key"
        )
    items = [
        tag(
            "li",
            tag(
                "a",
                f"{reason or 'Any reason'} ",
                tag("span", f"{many:,}", class_="soft"),
                href=links.run(opened.name, replace(query, reason=reason)),
                aria_current="true" if reason == query.reason else None,
            ),
        )
        for reason, many in (("", len(queue)), *found.most_common())
    ]
    return tag("ul", items, class_="quick", aria_label="Reasons for a review")


def _nothing(left: int, total: int) -> str:
    if left:
        return "No rollout of the queue fits, or none is left for this reason."
    return f"Nothing is left to review: {count(total, 'rollout')} had a reason." if total else "Nothing needs a review."
