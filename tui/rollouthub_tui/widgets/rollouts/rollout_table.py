"""The table of a run's rollouts: those in flight first, then those with a record."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import cast

from rich.cells import cell_len

from rollouthub.live.follow import RolloutList, RunFeed
from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.row_previews import RowPreview
from rollouthub.live.follow.row_reader import Components
from rollouthub.live.follow.transcript_search import Match
from rollouthub.live.steering.action_target import Target
from rollouthub.store import LiveState
from rollouthub.text import plain_name
from rollouthub.views.note_words import note_mark
from rollouthub_tui.widgets.cells import EMPTY, MARKED, Cell, Column, widest
from rollouthub_tui.widgets.rollouts import fields
from rollouthub_tui.widgets.rollouts.fields import Shape
from rollouthub_tui.widgets.rollouts.in_flight import Flight, InFlight
from rollouthub_tui.widgets.rollouts.live_table import LiveTable
from rollouthub_tui.widgets.rollouts.rollout_query import RolloutQuery
from rollouthub_tui.widgets.rollouts.row_words import (
    components,
    done_cell,
    ending,
    live_cell,
    moved,
    name_of,
    shortened,
)

_NAMES = ("task", "environment", "answer")
"""Columns whose texts are shortened in the middle."""
_LOOKED_AT = 16
"""Number of rollouts by which it is known which texts a run has."""
NO_TEXTS = RowPreview()
_LOOKED_BACK = 4096
"""Number of latest records searched for an attempt that was in flight a moment ago."""


class RolloutTable(LiveTable):
    """A row for each attempt; its cells are made only while it is visible."""

    def __init__(self) -> None:
        super().__init__()
        self.flights = InFlight()
        self.found: RolloutList | None = None
        self.parts: dict[int, Components] = {}
        """Reward components by index of the rollout, as far as they were read."""
        self.previews: dict[int, RowPreview] = {}
        """Texts by index of the rollout, as far as they were read."""
        self.matches: Mapping[int, Match] = {}
        """A match of the search by index of the rollout."""
        self.marked: set[Hashable] = set()
        """Keys of the marked rows."""
        self._marks_flights = False
        """Whether any of them may be in flight."""
        self.hint = ""
        """The text shown if no rollout is listed."""
        self._feed: RunFeed | None = None
        self._generation = -1
        self._now = 0.0
        self._plays = True
        self._shape = Shape()
        self._words = self._noted = 0
        self._notes_version = -1

    def begin(self, feed: RunFeed) -> None:
        """Show a run from the beginning, also one whose rows have all been replaced."""
        self._feed, self._generation = feed, feed.columns.generation
        self.parts, self.previews = {}, {}
        self.marked.clear()
        self._words, self._notes_version = 0, -1
        self._shape = Shape()
        self.restart()

    def take(self, found: RolloutList, query: RolloutQuery, now: float, task: tuple[str, str] | None) -> None:
        """Show a list of rollouts and those in flight now."""
        assert self._feed is not None
        feed, columns = self._feed, self._feed.columns
        self.found, self._now = found, now
        self._plays = feed.info.status == "running"
        self.flights.take(feed.live, query, task)
        self._follow_marks()
        shape = self._shaped(feed, columns, query)
        if shape != self._shape:
            self._shape = shape
            self.remake()
        self.update_rows()

    def _shaped(self, feed: RunFeed, columns: AttemptColumns, query: RolloutQuery) -> Shape:
        words, before = columns.words, self._shape
        task = before.task
        tasks = words["task_id"].vocabulary
        if len(tasks) > self._words:
            new = tasks[self._words :]
            task = min(fields.FIELDS["task"].most, max([task, *(len(name) for name in new)]))
            self._words = len(tasks)
        task = min(fields.FIELDS["task"].most, max([task, *(len(state.task_id) for state in feed.live[:8])]))
        endings = [ending(word) for word in words["outcome"].vocabulary]
        state = max([13, *(cell_len(cell.text) for cell in endings)])
        if feed.notes.version != self._notes_version:
            self._notes_version = feed.notes.version
            self._noted = widest(plain_name(note_mark(notes)) for _, _, notes in feed.notes)
        named = set(words["environment"].vocabulary) | {state.environment for state in feed.live[:8]}
        return Shape(
            state=max(state, 16) if feed.live else state,
            task=task,
            environments=before.environments or len(named) > 1,
            samples=len(words["group_id"].vocabulary) < len(columns) or not columns,
            retried=bool(columns.withdrawn) or before.retried,
            attempts=query.attempts,
            components=before.components or any(self.parts.values()),
            matches=query.pattern is not None,
            reviews=query.review,
            notes=self._noted,
            faults=bool(words["fault"].vocabulary),
            costs=any(cost == cost for cost in columns.numbers["cost"][:8]),
            **self._texts(),
            sort=query.sort,
            descending=query.descending,
        )

    def _texts(self) -> dict[str, bool]:
        """Which texts there are: all, until enough rollouts were read that have none."""
        read, before = list(islice(self.previews.values(), _LOOKED_AT)), self._shape
        is_early = len(read) < _LOOKED_AT // 2
        return {
            "prompts": is_early or (before.prompts and any(each.prompt for each in read)),
            "answers": is_early or (before.answers and any(each.answer for each in read)),
            "feedbacks": is_early or (before.feedbacks and any(each.feedback for each in read)),
        }

    @property
    def count(self) -> int:
        """The number of attempts, in flight and with a record."""
        if self._feed is None or self.found is None or self._feed.columns.generation != self._generation:
            return 0  # all was read anew, and is shown at the next tick
        return len(self.flights) + len(self.found)

    @property
    def nothing(self) -> str:
        """Why no rollout is listed."""
        return self.hint

    def place(self, row: int) -> int | None:
        """The index of a row's record in the run's columns; None while it is in flight."""
        return None if self.found is None or row < len(self.flights) else self.found[row - len(self.flights)]

    def target(self) -> Target | None:
        """The rollout under the cursor; None where there is none."""
        row = self.cursor
        if row >= self.count:
            return None
        place = self.place(row)
        if place is None:
            state = self.flights.states[row]
            return Target(state.rollout_id, state.attempt, None)
        columns = self._columns
        return Target(columns.texts["rollout_id"][place], columns.wholes["attempt"][place], place)

    def key(self, row: int) -> Hashable:
        """The index of the record; for an attempt in flight, its id and attempt number."""
        place = self.place(row)
        if place is not None:
            return place
        state = self.flights.states[row]
        return (state.rollout_id, state.attempt)

    def row_of(self, key: Hashable) -> int | None:
        """The row of an attempt, even if it has ended since the key was made."""
        if isinstance(key, tuple):
            flight: Flight = key  # pyright: ignore[reportUnknownVariableType, reportAssignmentType] as `key` made it
            row = self.flights.row(flight)
            if row is not None:
                return row
            key = self._landed(flight)
        if self.found is None or not isinstance(key, int) or key >= len(self._columns):
            return None
        position = self.found.position(key)
        return None if position is None else len(self.flights) + position

    def _landed(self, flight: Flight) -> int | None:
        columns = self._columns
        ids, attempts = columns.texts["rollout_id"], columns.wholes["attempt"]
        for place in range(len(columns) - 1, max(-1, len(columns) - 1 - _LOOKED_BACK), -1):
            if ids[place] == flight[0] and attempts[place] == flight[1]:
                return place
        return None

    @property
    def _columns(self) -> AttemptColumns:
        assert self._feed is not None
        return self._feed.columns

    def _follow_marks(self) -> None:
        """Keep the marks of attempts that were in flight and have ended."""
        if not self._marks_flights:
            return
        flights = [cast(Flight, key) for key in self.marked if not isinstance(key, int)]  # as `key` made them
        self._marks_flights = bool(flights)
        for flight in flights:
            if self.flights.row(flight) is None and (place := self._landed(flight)) is not None:
                self.marked.discard(flight)
                self.marked.add(place)

    def mark(self, row: int) -> str:
        """The sign of a marked row."""
        return MARKED if self.marked and self.key(row) in self.marked else " "

    def toggle_mark(self) -> None:
        """Mark the row at the cursor, or not any more, and go on to the next."""
        if self.cursor < self.count:
            self.marked ^= {self.key(self.cursor)}
            self._marks_flights = True
            self.cursor += 1
            self.update_rows()

    def mark_all(self) -> None:
        """Mark all that are listed; or none, if all are marked already."""
        listed = {self.key(row) for row in range(len(self.flights))}
        if self.found is not None:
            listed |= set(self.found.page(0, len(self.found)))
        self.marked = self.marked - listed if listed <= self.marked else self.marked | listed
        self._marks_flights = True
        self.update_rows()

    def unmark_all(self) -> None:
        """Remove all marks."""
        self.marked.clear()
        self.update_rows()

    def marked_targets(self) -> list[Target]:
        """The marked rollouts, whether they are listed or not, in the order in which they were committed."""
        columns, targets = self._columns, list[Target]()
        for place in sorted(key for key in self.marked if isinstance(key, int)):
            targets.append(Target(columns.texts["rollout_id"][place], columns.wholes["attempt"][place], place))
        flying = {(state.rollout_id, state.attempt) for state in self._feed.live} if self._feed else set[Flight]()
        return [*targets, *(Target(*flight, None) for flight in sorted(flying) if flight in self.marked)]

    def stamp(self, row: int) -> Hashable:
        """The values that determine a row's line."""
        place = self.place(row)
        if place is None:
            state = self.flights.states[row]
            return (state, moved(state, self._now), self._plays, self.mark(row))
        columns = self._columns
        notes = columns.notes_at(place) if self._shape.notes else None
        is_read = (place in self.parts, place in self.previews)
        is_marked = place in self.marked
        return (place, columns.effective[place], is_read, place in self.matches, notes, is_marked)

    def fit(self, width: int) -> Sequence[Column]:
        """The columns that fit, given the run and the list."""
        return fields.fit(self._shape, width)

    def cells(self, row: int, columns: Sequence[Column]) -> Sequence[Cell]:
        """The cells of a row."""
        place = self.place(row)
        if place is None:
            state = self.flights.states[row]
            made = [live_cell(state, column.name, self._now, plays=self._plays) for column in columns]
        else:
            made = [self._cell(place, column.name) for column in columns]
        return [
            Cell(shortened(cell.text, column.width)) if column.name in _NAMES else cell
            for cell, column in zip(made, columns, strict=True)
        ]

    def _cell(self, place: int, name: str) -> Cell:
        if name == "components":
            return Cell(components(self.parts.get(place)))
        if name == "match":
            found = self.matches.get(place)
            return Cell(f"{found.turn}: {name_of(found.excerpt)}") if found else EMPTY
        if name in fields.ELASTIC:
            return Cell(getattr(self.previews.get(place, NO_TEXTS), name) or "")
        if name == "why":
            return Cell(", ".join(self._feed.review.reasons(place)) if self._feed else "")
        return done_cell(self._columns, place, name)

    def _visible(self) -> Iterator[int]:
        """Indices of the visible rollouts that have a record."""
        if self._feed is not None:
            places = (self.place(row) for row in self.visible_rows())
            yield from (place for place in places if place is not None)

    def unread(self) -> list[int]:
        """Indices of visible rollouts whose reward components have not been read yet."""
        parts = self.parts
        return [
            place
            for place in self._visible()
            if place not in parts and (reward := self._columns.numbers["reward"][place]) == reward
        ]

    def unread_texts(self) -> list[int]:
        """Indices of visible rollouts whose texts are shown, and have not been read yet."""
        if not any(column.name in fields.ELASTIC for column in self.shown_columns):
            return []
        return [place for place in self._visible() if place not in self.previews]

    def next_live(self) -> LiveState | None:
        """The next attempt in flight after the cursor, wrapping around; None if there is none."""
        states = self.flights.states
        return states[(self.cursor + 1) % len(states) if self.cursor + 1 < len(states) else 0] if states else None
