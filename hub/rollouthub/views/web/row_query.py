"""What a list of rollouts shows and in which order, as the query of its URL says it."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from rollouthub.errors import UnknownNameError
from rollouthub.live.follow import FilterError, RolloutList, RunFeed
from rollouthub.live.follow.filter import LONGEST

MOST_LISTS = 8
"""Lists of a run that are kept."""
MOST_SEARCHED = 200
"""Most characters of a search."""


@dataclass(frozen=True, slots=True)
class RowQuery:
    """The restrictions and the order of a list of rollouts."""

    filter: str = ""
    search: str = ""
    sort: str = "seq"
    descending: bool = True
    attempts: bool = False
    """Whether attempts that a later one replaced are listed, too."""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> "RowQuery":
        """Read a URL's query; what it does not name has its default."""
        return cls(
            filter=asked.get("filter", "").strip()[: LONGEST + 1],
            search=asked.get("search", "").strip()[:MOST_SEARCHED],
            sort=asked.get("sort", "seq"),
            descending=asked.get("order", "down" if asked.get("sort", "seq") == "seq" else "up") != "up",
            attempts=asked.get("attempts") == "all",
        )

    def asked(self) -> dict[str, str]:
        """The query of a URL, without what has its default."""
        found = {"filter": self.filter, "search": self.search, "attempts": "all" if self.attempts else ""}
        if self.sort != "seq":
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
        self._lists: OrderedDict[RowQuery, RolloutList] = OrderedDict()

    def find(self, query: RowQuery) -> FoundRows:
        """The rows of a query."""
        try:
            return FoundRows(self._list(query))
        except (FilterError, UnknownNameError) as error:
            return FoundRows(self._list(RowQuery(attempts=query.attempts)), error)

    def _list(self, query: RowQuery) -> RolloutList:
        found = self._lists.get(query)
        if found is None:
            found = self._feed.rollouts(
                query.sort,
                descending=query.descending,
                where=query.filter,
                search=query.search,
                effective=not query.attempts,
            )
            self._lists[query] = found
            if len(self._lists) > MOST_LISTS:
                self._lists.popitem(last=False)
        found.catch_up()
        self._lists.move_to_end(query)
        return found
