"""What a list of rollouts shows and in which order, as the query of its URL says it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from rollouthub.errors import UnknownNameError
from rollouthub.live.follow import FilterError, RolloutList, RunFeed
from rollouthub.live.follow.filter import LONGEST

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

    def rows(self, feed: RunFeed) -> RolloutList:
        """The rows of a run.

        Raises:
            FilterError: the filter is not valid.
            UnknownNameError: no column has the name to sort by.
        """
        return feed.rollouts(
            self.sort, descending=self.descending, where=self.filter, search=self.search, effective=not self.attempts
        )


@dataclass(frozen=True)
class FoundRows:
    """The rows that a query finds, or all rows and the reason why the query finds none."""

    rows: RolloutList
    query: RowQuery
    problem: FilterError | UnknownNameError | None = None

    @classmethod
    def of(cls, query: RowQuery, feed: RunFeed) -> "FoundRows":
        """Ask a run for the rows."""
        try:
            return cls(query.rows(feed), query)
        except (FilterError, UnknownNameError) as error:
            return cls(RowQuery().rows(feed), query, error)
