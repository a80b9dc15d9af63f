"""What a list of rollouts shows and in which order, as the query of its URL says it."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from rollouthub.errors import UnknownNameError
from rollouthub.live.follow import FilterError, RolloutFilter, RolloutList, RunFeed, parse_filter
from rollouthub.live.follow.filter import ALIASES, LONGEST
from rollouthub.live.follow.predicates import joined
from rollouthub.live.follow.rollout_view import BY_TASK

MOST_LISTS = 8
"""Lists of a run that are kept."""
MOST_SEARCHED = 200
"""Most characters of a search."""
AUTO = "auto"
"""The order of a list that was not asked for another: by task and sample, but the newest first in the queue of reviews,
and while the run plays."""


@dataclass(frozen=True, slots=True)
class RowQuery:
    """The restrictions and the order of a list of rollouts."""

    filter: str = ""
    search: str = ""
    sort: str = AUTO
    descending: bool = False
    attempts: bool = False
    """Whether attempts that a later one replaced are listed, too."""
    review: bool = False
    """Whether only what waits for a review is listed."""
    reason: str = ""
    """The reason for a review that what is listed has; empty for any."""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> "RowQuery":
        """Read a URL's query; what it does not name has its default."""
        return cls(
            filter=asked.get("filter", "").strip()[: LONGEST + 1],
            search=asked.get("search", "").strip()[:MOST_SEARCHED],
            sort=asked.get("sort", AUTO),
            descending=asked.get("order", "down" if asked.get("sort") == "seq" else "up") != "up",
            attempts=asked.get("attempts") == "all",
            review=asked.get("review") == "yes",
            reason=asked.get("reason", "")[:MOST_SEARCHED] if asked.get("review") == "yes" else "",
        )

    def asked(self) -> dict[str, str]:
        """The query of a URL, without what has its default."""
        found = {"filter": self.filter, "search": self.search, "attempts": "all" if self.attempts else ""}
        found |= {"review": "yes" if self.review else "", "reason": self.reason if self.review else ""}
        if self.sort != AUTO:
            found["sort"] = self.sort
        if self.descending != (self.sort == "seq"):
            found["order"] = "down" if self.descending else "up"
        return {name: value for name, value in found.items() if value}

    def written(self, **more: str | int) -> str:
        """The query as text, with its question mark; empty if there is nothing to ask."""
        asked = {**self.asked(), **{name: str(value) for name, value in more.items()}}
        return f"?{urlencode(asked)}" if asked else ""

    def sorted_by(self, sort: str) -> "RowQuery":
        """The list in the order of a column; the other way round if it is in its order already."""
        return replace(self, sort=sort, descending=not self.descending if sort == self.sort else False)


@dataclass(frozen=True)
class FoundRows:
    """The rows that a query finds; all rows, and the reason, where it is no query."""

    rows: RolloutList
    problem: FilterError | UnknownNameError | None = None


class RowLists:
    """The lists of one run that pages asked for last: a list that is there is only brought up to date."""

    def __init__(self, feed: RunFeed) -> None:
        self._feed = feed
        self._lists: OrderedDict[RowQuery, tuple[RolloutList, int]] = OrderedDict()
        """Query → its list, and the version of the review queue that it was made of."""

    def find(self, query: RowQuery) -> FoundRows:
        """The rows of a query."""
        try:
            return FoundRows(self._list(query))
        except (FilterError, UnknownNameError) as error:
            plain = RowQuery(attempts=query.attempts, review=query.review, reason=query.reason)
            return FoundRows(self._list(plain), error)

    def _list(self, query: RowQuery) -> RolloutList:
        version = self._feed.review.version if query.review else 0
        order = self._order(query)
        found, made_of = self._lists.get(query, (None, version))
        if found is None or made_of != version or (found.sort, found.descending) != order:
            sort, descending = order
            found = self._feed.rollouts(
                sort,
                descending=descending,
                where=self._waiting(query) if query.review else query.filter,
                search=query.search,
                effective=not query.attempts,
            )
            self._lists[query] = found, version
            if len(self._lists) > MOST_LISTS:
                self._lists.popitem(last=False)
        found.catch_up()
        self._lists.move_to_end(query)
        return found

    def _order(self, query: RowQuery) -> tuple[str, bool]:
        """The column of a list, and whether it descends."""
        if query.sort != AUTO:
            return ALIASES.get(query.sort, query.sort), query.descending
        is_newest_first = query.review or self._feed.info.status == "running"
        return ("seq", not query.descending) if is_newest_first else (BY_TASK, query.descending)

    def _waiting(self, query: RowQuery) -> RolloutFilter:
        """A filter's rows, of which only those that wait for a review now, or for one reason."""
        where, review = parse_filter(query.filter), self._feed.review
        places = review.places
        if query.reason:
            places = {place for place in places if query.reason in review.reasons(place)}
        return RolloutFilter(
            query.filter, joined([where.bind, lambda _: places.__contains__], is_any=False), where.reads_notes
        )
