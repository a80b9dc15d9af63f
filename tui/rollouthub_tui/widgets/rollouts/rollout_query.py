"""What is wanted of a run's rollouts: a filter, a search, errors only …, and the order; each can be taken back."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from rollouthub.live.follow import RolloutFilter, RolloutList, RunFeed, parse_filter
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.predicates import Binding, Predicate, joined, text_is
from rollouthub.text import plain_name
from rollouthub_tui.widgets.rollouts.fields import sort_words


@dataclass
class Wanted:
    """What narrows the list, the latest last."""

    sort: str = "seq"
    descending: bool = True
    where: RolloutFilter = field(default_factory=lambda: parse_filter(""))
    search: str = ""
    group: str | None = None
    errors: bool = False
    attempts: bool = False
    """Also those that a later one replaced."""
    pattern: str | None = None
    matching: Collection[int] = ()
    """Places of rows whose transcripts match the pattern."""
    latest: list[str] = field(default_factory=list[str])
    """What is in force, in the order in which it came."""

    def note(self, name: str, is_set: bool) -> None:
        """Something came into force, or was taken back."""
        self.latest = [other for other in self.latest if other != name] + [name] * is_set

    def take_back(self) -> str | None:
        """Take back what came last; its name, or None where nothing is in force."""
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
            case "all attempts":
                self.attempts = False
            case _:
                self.pattern, self.matching = None, ()
        self.note(name, False)
        return name

    @property
    def narrows(self) -> bool:
        """Whether some rollouts are left out."""
        return any(name != "all attempts" for name in self.latest)

    def words(self, group_name: Callable[[str], str]) -> list[str]:
        """What is in force and how rows are ordered, in words."""
        said = [sort_words(self.sort, self.descending)]
        for name in self.latest:
            match name:
                case "filter":
                    said.append(f"filter {plain_name(self.where.text)}")
                case "search":
                    said.append(f"search “{plain_name(self.search)}”")
                case "task":
                    said.append(f"task {plain_name(group_name(self.group or ''))}")
                case "transcripts":
                    said.append(f"transcripts /{plain_name(self.pattern or '')}/")
                case _:
                    said.append(name)
        return said

    def binding(self) -> Binding:
        """All that rows must be, but for the search, whose letters the list itself takes."""
        wanted = [self.where.bind]
        if self.group is not None:
            wanted.append(text_is("group_id", "==", self.group))
        if self.errors:
            wanted.append(text_is("outcome", "!=", "scored"))
        if self.pattern is not None:
            wanted.append(self._matches)
        return wanted[0] if len(wanted) == 1 else joined(wanted, is_any=False)

    def _matches(self, columns: AttemptColumns) -> Predicate:
        return self.matching.__contains__

    def rollouts(self, feed: RunFeed) -> RolloutList:
        """The list."""
        return feed.rollouts(
            self.sort,
            descending=self.descending,
            where=RolloutFilter(self.where.text, self.binding()),
            search=self.search,
            effective=not self.attempts,
        )
