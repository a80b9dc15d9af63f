"""A filtered and sorted list of rollouts, updated while the run goes on."""

import re
from array import array
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from rollouthub.errors import UnknownNameError
from rollouthub.live.follow.attempt_columns import ALL_KINDS, KINDS, AttemptColumns
from rollouthub.live.follow.filter import ALIASES, RolloutFilter, parse_filter
from rollouthub.live.follow.fuzzy import closeness
from rollouthub.live.follow.incremental import IncrementalView
from rollouthub.live.follow.note_columns import NOTE_KINDS
from rollouthub.live.follow.predicates import Predicate, always

_INSERT_SHARE = 50
"""New rows are inserted one by one while the list has at least this many times as many rows; otherwise the list is
sorted again.
"""
_CHANGING = ("seq", "effective")
"""Columns whose value changes when a later attempt replaces a row, so that a binary search cannot find the row.
Every row has a value in them.
"""
_SEARCHED = ("task_id", "environment", "fault")

BY_TASK = "by task"
"""Sorts by task, its numbers by their value, and a task's rows by sample."""
_NUMBER = re.compile(r"[0-9]{1,99}")

_Key = Callable[[int], float | str]


class RolloutList(IncrementalView):
    """Indices of the rows that match a filter and a search, sorted by a column; rows without a value come last, in
    either direction.
    """

    def __init__(
        self,
        columns: AttemptColumns,
        sort: str = "seq",
        *,
        descending: bool = False,
        where: str | RolloutFilter = "",
        search: str = "",
        effective: bool = True,
    ) -> None:
        """`search` matches its letters in order; `effective` leaves out attempts that a later one replaced.

        Raises:
            FilterError: `where` is not a valid filter.
            UnknownNameError: `sort` is not a column.
        """
        super().__init__(columns)
        self.sort = ALIASES.get(sort, sort)
        if self.sort not in ALL_KINDS and self.sort != BY_TASK:
            raise UnknownNameError("column", sort, [*ALL_KINDS, *ALIASES])
        self.descending = descending
        self.filter = parse_filter(where) if isinstance(where, str) else where
        self.search, self.effective = search.strip(), effective
        self._reads_notes = self.filter.reads_notes or self.sort in NOTE_KINDS
        self._clear()

    def catch_up(self) -> None:
        """Process what is new; where notes changed that the list depends on, all of it is made again."""
        if self._reads_notes and self._notes_version != self._present_notes:
            self._generation = -1
        super().catch_up()

    @property
    def _present_notes(self) -> int:
        return 0 if self._columns.notes is None else self._columns.notes.version

    def _clear(self) -> None:
        columns = self._columns
        self._notes_version = self._present_notes
        self._sorted, self._absent = array("q"), array("q")
        self._holds: Predicate = self.filter.bind(columns)
        self._key, self._has = _key(columns, self.sort)
        self._close: dict[str, dict[int, bool]] = {name: {} for name in _SEARCHED}

    def __len__(self) -> int:
        return len(self._sorted) + len(self._absent)

    def __getitem__(self, position: int) -> int:
        """The row's index in the columns, for a position in the list."""
        count = len(self._sorted)
        if not 0 <= position < len(self):
            raise IndexError(position)
        if position < count:
            return self._sorted[count - 1 - position if self.descending else position]
        position -= count
        return self._absent[-1 - position if self.descending else position]

    def page(self, start: int, stop: int) -> list[int]:
        """The row indices at positions from `start` up to, but not including, `stop`."""
        return [self[position] for position in range(max(0, start), min(stop, len(self)))]

    def position(self, place: int) -> int | None:
        """A row's position in the list; None if it is not in it."""
        has = self._has(place)
        part = self._sorted if has else self._absent
        at = self._find(part, place)
        if at is None:
            return None
        within = len(part) - 1 - at if self.descending else at
        return within if has else len(self._sorted) + within

    def next_error(self, position: int = -1, *, backwards: bool = False) -> int | None:
        """The next position whose row is not scored, wrapping around; None without any."""
        words = self._columns.words["outcome"]
        scored, codes, count = words.code("scored"), words.codes, len(self)
        for step in range(1, count + 1):
            at = (position - step if backwards else position + step) % count
            if codes[self[at]] != scored:
                return at
        return None

    def best(self) -> int | None:
        """Position of the highest reward, the first of equal ones; None if no row is scored."""
        return self._extreme(lambda reward, best: reward > best)

    def worst(self) -> int | None:
        """Position of the lowest reward, the first of equal ones; None if no row is scored."""
        return self._extreme(lambda reward, best: reward < best)

    def _extreme(self, beats: Callable[[float, float], bool]) -> int | None:
        rewards = self._columns.numbers["reward"]
        found: int | None = None
        best = 0.0
        for position in range(len(self)):
            reward = rewards[self[position]]
            if reward == reward and (found is None or beats(reward, best)):
                found, best = position, reward
        return found

    def _add(self, start: int, stop: int) -> None:
        columns = self._columns
        places: Sequence[int] = range(start, stop)
        if self.effective:
            places = list(columns.effective_places(start, stop))
        takes_all = self._holds is always and not self.search  # many rows are not asked what all answer alike
        wanted = places if takes_all else [place for place in places if self._wants(place)]
        present = wanted if self._has is always else [place for place in wanted if self._has(place)]
        if len(present) < len(wanted):
            self._absent.extend(place for place in wanted if not self._has(place))
        ordered, key = self._sorted, self._key
        if len(present) * _INSERT_SHARE > len(ordered):
            # New rows come after all equal ones, as their places do: both sorts are stable.
            self._sorted = array("q", sorted([*ordered, *present], key=key))
        else:
            for place in present:
                insort(ordered, place, key=key)

    def _withdraw_all(self, places: Sequence[int]) -> None:
        # All leave before any comes back: until then the list may be out of order by what has changed in them.
        for place in places:
            self._withdraw(place)
        if not self.effective:
            for place in places:
                if self._wants(place):
                    self._add_again(place)

    def _withdraw(self, place: int) -> None:
        if self.sort in _CHANGING:
            if place in self._sorted:
                self._sorted.remove(place)
            return
        part = self._sorted if self._has(place) else self._absent
        at = self._find(part, place)
        if at is not None:
            del part[at]

    def _add_again(self, place: int) -> None:
        if self._has(place):
            key = self._key
            at = bisect_left(self._sorted, (key(place), place), key=lambda row: (key(row), row))
            self._sorted.insert(at, place)
        else:
            insort(self._absent, place)

    def _find(self, part: "array[int]", place: int) -> int | None:
        if part is self._absent:
            at = bisect_left(part, place)
        else:
            key = self._key
            at = bisect_left(part, (key(place), place), key=lambda row: (key(row), row))
        return at if at < len(part) and part[at] == place else None

    def _wants(self, place: int) -> bool:
        return self._holds(place) and (not self.search or self._is_close(place))

    def _is_close(self, place: int) -> bool:
        for name in _SEARCHED:
            words, known = self._columns.words[name], self._close[name]
            code = words.codes[place]
            if code >= 0:
                if code not in known:
                    known[code] = closeness(self.search, words.vocabulary[code]) is not None
                if known[code]:
                    return True
        return closeness(self.search, self._columns.texts["rollout_id"][place]) is not None


def _key(columns: AttemptColumns, name: str) -> tuple[_Key, Predicate]:
    """Return the sort key of a column, and a predicate for the rows that have a value in it."""
    if name == BY_TASK:
        tasks, samples = columns.words["task_id"], columns.wholes["sample"]
        codes, names, ends = tasks.codes, dict[int, str](), dict[int, str]()

        def by_task(place: int) -> str:
            code, sample = codes[place], samples[place]
            try:
                return names[code] + ends[sample]
            except KeyError:
                names[code] = _NUMBER.sub(lambda found: f"{len(found[0]):02}{found[0]}", tasks[place] or "")
                ends[sample] = f"\0{sample:09}"
                return names[code] + ends[sample]

        return by_task, always
    if name in NOTE_KINDS:
        return lambda place: columns.value(name, place) or "", lambda place: bool(columns.value(name, place))
    if name in columns.words:
        words = columns.words[name]
        codes, vocabulary = words.codes, words.vocabulary
        return lambda place: vocabulary[codes[place]], lambda place: codes[place] >= 0
    if name in columns.texts:
        return columns.texts[name].__getitem__, always
    if KINDS[name] == "real":
        numbers = columns.numbers[name]
        return numbers.__getitem__, lambda place: numbers[place] == numbers[place]
    if name in columns.flags:
        flags = columns.flags[name]
        return flags.__getitem__, lambda place: flags[place] >= 0
    return columns.wholes[name].__getitem__, always
