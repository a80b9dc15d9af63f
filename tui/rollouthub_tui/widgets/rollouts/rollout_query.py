"""The restrictions on a list of rollouts (filter, search, errors only and so on) and its order; each can be undone."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from rollouthub.live.follow import RolloutFilter, RolloutList, RunFeed, parse_filter
from rollouthub.live.follow.predicates import Binding, FilteredColumns, Predicate, always, joined, text_is
from rollouthub.text import plain_name
from rollouthub_tui.widgets.rollouts.fields import sort_words


@dataclass
class RolloutQuery:
    """The present restrictions and the order."""

    sort: str = "seq"
    descending: bool = True
    where: RolloutFilter = field(default_factory=lambda: parse_filter(""))
    search: str = ""
    group: str | None = None
    errors: bool = False
    review: bool = False
    """Whether only what waits for a review is listed."""
    attempts: bool = False
    """Whether replaced attempts are listed, too."""
    only: tuple[str, Collection[int]] | None = None
    """In words, and by the indices of their rows, which rollouts of a breakdown are listed."""
    pattern: str | None = None
    matching: Collection[int] = ()
    """Indices of the rollouts whose transcripts match the pattern."""
    latest: list[str] = field(default_factory=list[str])
    """Names of the restrictions in force, in the order in which they were set."""

    def note(self, name: str, is_set: bool) -> None:
        """Record that a restriction was set or removed."""
        self.latest = [other for other in self.latest if other != name] + [name] * is_set

    def take_back(self) -> str | None:
        """Remove the restriction that was set last; returns its name, or None if there is none."""
        if not self.latest:
            return None
        name = self.latest[-1]
        match name:
            case "filter":
                self.where = parse_filter("")
            case "search":
                self.search = ""
            case "task":
                self.group = None
            case "errors only":
                self.errors = False
            case "needs review":
                self.review = False
            case "breakdown":
                self.only = None
            case "all attempts":
                self.attempts = False
            case _:
                self.pattern, self.matching = None, ()
        self.note(name, False)
        return name

    @property
    def narrows(self) -> bool:
        """Whether any restriction leaves rollouts out."""
        return any(name != "all attempts" for name in self.latest)

    def words(self, group_name: Callable[[str], str]) -> list[str]:
        """The restrictions and the order in words."""
        said = [sort_words(self.sort, self.descending)]
        for name in self.latest:
            match name:
                case "filter":
                    said.append(f"filter {plain_name(self.where.text)}")
                case "search":
                    said.append(f"search “{plain_name(self.search)}”")
                case "task":
                    said.append(f"task {plain_name(group_name(self.group or ''))}")
                case "breakdown":
                    said.append(plain_name(self.only[0]) if self.only else name)
                case "transcripts":
                    said.append(f"transcripts /{plain_name(self.pattern or '')}/")
                case _:
                    said.append(name)
        return said

    def binding(self) -> Binding:
        """All conditions on rows as one filter, except the search, which the list applies itself."""
        predicates = [self.where.bind]
        if self.group is not None:
            predicates.append(text_is("group_id", "==", self.group))
        if self.errors:
            predicates.append(text_is("outcome", "!=", "scored"))
        if self.only is not None:
            predicates.append(self._is_chosen)
        if self.pattern is not None:
            predicates.append(self._matches)
        return predicates[0] if len(predicates) == 1 else joined(predicates, is_any=False)

    def _is_chosen(self, columns: FilteredColumns) -> Predicate:
        return self.only[1].__contains__ if self.only is not None else always

    def _matches(self, columns: FilteredColumns) -> Predicate:
        return self.matching.__contains__

    def rollouts(self, feed: RunFeed) -> RolloutList:
        """The list of rollouts that meet the restrictions; of a review, those that wait for one now.

        Raises:
            RunDirectoryError, StoreError: what needs a review could not be read.
        """
        binding = self.binding()
        if self.review:
            waiting = feed.review
            binding = joined([binding, lambda _: waiting.places.__contains__], is_any=False)
        return feed.rollouts(
            self.sort,
            descending=self.descending,
            where=RolloutFilter(self.where.text, binding, self.where.reads_notes),
            search=self.search,
            effective=not self.attempts,
        )
