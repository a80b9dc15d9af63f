"""The list of a run's rollouts, kept up to date; actions on it are in `pane.py`."""

import time
from collections.abc import Collection
from functools import partial

import anyio.to_thread
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.worker import Worker

from rollouthub.errors import HubError
from rollouthub.live.follow import RolloutList, parse_filter
from rollouthub.live.follow.row_reader import RowReader
from rollouthub.live.follow.transcript_search import compile_pattern
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain_name
from rollouthub_tui.widgets.plain_ground import ground_lines
from rollouthub_tui.widgets.rollouts.filter_input import Entry
from rollouthub_tui.widgets.rollouts.preview import LEAST_WIDTH, Preview
from rollouthub_tui.widgets.rollouts.rollout_query import RolloutQuery
from rollouthub_tui.widgets.rollouts.rollout_table import NO_TEXTS, RolloutTable
from rollouthub_tui.widgets.rollouts.search_hits import Hits
from rollouthub_tui.widgets.rollouts.status_line import Standing
from rollouthub_tui.widgets.virtual_table import Listing

_SHARE = 20
"""During a search, updating the list may take at most one part in this many of the time."""
_ASK_AGAIN_SECONDS = 2.0
"""Seconds between searches of newly added transcripts."""
_ROOM_FOR_PARTS = 110
"""Width in cells from which the components of rewards are read."""
_MOST_TEXTS = 4096
"""Most rollouts whose texts are kept: of those seen earlier they are read again."""
_PARTS_SECONDS = 0.5
"""Seconds between such readings while the run plays."""
_PREVIEW_SECONDS = 1.0
"""Seconds that a preview stays, at least, where other rollouts come to the cursor by themselves."""


class _Beside(Horizontal):
    """The table and the preview."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The background, to paint."""
        return ground_lines(self, crop)


class ListedRollouts(Widget):
    """A run's rollouts as a table, with the present filter, order and search."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rollout_query = RolloutQuery()
        self.hits: Hits | None = None
        self.table, self.preview = RolloutTable(), Preview()
        self.wants_preview = True
        """Whether the rollout at the cursor is shown beside the list, where there is room."""
        self._standing, self._entry = Standing(), Entry()
        self._run: WatchedRun | None = None
        self._generation = -1
        self._reader: RowReader | None = None
        self._is_reading = False
        self._parts_at = -_PARTS_SECONDS
        self._searching: Worker[None] | None = None
        self._note = ""
        self._listed_version = self._review_version = 0
        self._listed_at = self._listing_seconds = self._searched_at = self._previewed_at = 0.0

    def render_lines(self, crop: Region) -> list[Strip]:
        """The background, to paint."""
        return ground_lines(self, crop)

    def compose(self) -> ComposeResult:
        """A line that describes the list, the table, and an input line."""
        yield self._standing
        with _Beside():
            yield self.table
            yield self.preview
        yield self._entry

    @property
    def target(self) -> Target | None:
        """The selected rollout; None if there is none."""
        return self.table.target() if self._run is not None else None

    @property
    def targets(self) -> list[Target]:
        """The marked rollouts."""
        return self.table.marked_targets() if self._run is not None and self.table.marked else []

    @property
    def pattern(self) -> str | None:
        """The expression that transcripts are searched for; None without such a search."""
        return self.rollout_query.pattern

    @property
    def is_asking(self) -> bool:
        """Whether a person types a filter, or something to look for."""
        return bool(self._entry.display)

    @property
    def among(self) -> RolloutList | None:
        """The list of rollouts with a record, as shown."""
        return self.table.found

    def on_unmount(self) -> None:
        """Close the reader of components."""
        if self._reader is not None:
            self._reader.close()

    def focus(self, scroll_visible: bool = True, **_: bool) -> "ListedRollouts":
        """Focus its table."""
        self.table.focus(scroll_visible)
        return self

    def show(self, run: WatchedRun) -> None:
        """Update the list from the run."""
        if not run.is_open:
            return
        if run is not self._run or run.feed.columns.generation != self._generation:
            self._begin(run)
        self._take_hits(run)
        if self.rollout_query.review and run.feed.review.version != self._review_version:
            self._list(show=False)
        self._bring_up_to_date(is_asked=run.feed.info.status != "running")
        self._read_parts()

    def only_group(self, group_id: str) -> None:
        """List the samples of one task's group."""
        self.rollout_query.group = group_id
        self.rollout_query.note("task", True)
        self._list()

    def only_rows(self, words: str, places: Collection[int], *, attempts: bool) -> None:
        """List the rollouts of a breakdown's line; with `attempts`, replaced ones, too."""
        query = self.rollout_query
        query.only = (words, frozenset(places))
        query.note("breakdown", True)
        if attempts and not query.attempts:
            query.attempts = True
            query.note("all attempts", True)
        self._list()

    def only_filter(self, text: str) -> None:
        """List what an expression holds for."""
        self.rollout_query.where = parse_filter(text)
        self.rollout_query.note("filter", bool(text.strip()))
        self._list()

    def _begin(self, run: WatchedRun) -> None:
        is_same = run is self._run
        if is_same and self.rollout_query.only is not None:  # its rows are numbered anew
            self.rollout_query.only = None
            self.rollout_query.note("breakdown", False)
        self._run, self._generation = run, run.feed.columns.generation
        if not is_same:
            if self._reader is not None:
                self._reader.close()
            self._reader = RowReader(run.directory)
        if self.rollout_query.pattern is not None:
            self._search(self.rollout_query.pattern)
        self.table.begin(run.feed)
        self._list(show=False)

    def _list(self, *, show: bool = True) -> None:
        """Make the list anew with the present restrictions and order."""
        if self._run is None:
            return
        began = time.perf_counter()
        self.table.found = self.rollout_query.rollouts(self._run.feed)
        if self.rollout_query.review:
            self._review_version = self._run.feed.review.version
        self._listed_at = time.perf_counter()
        self._listing_seconds = self._listed_at - began
        if show:
            self._bring_up_to_date()

    def _bring_up_to_date(self, *, is_asked: bool = True) -> None:
        run, table = self._run, self.table
        assert run is not None
        if table.found is None:
            return
        table.found.catch_up()
        table.hint = self._hint(run)
        table.take(table.found, self.rollout_query, run.clock(), self._lone_task())
        self._say()
        rests = time.monotonic() < self._previewed_at + _PREVIEW_SECONDS
        if is_asked or self.preview.shown is None or not rests:
            self._show_preview()

    def on_resize(self, event: Resize) -> None:
        """Show or hide the preview."""
        self.fit_preview()

    def fit_preview(self) -> None:
        """Show the preview if it is wanted and there is room."""
        is_shown = self.wants_preview and self.size.width >= LEAST_WIDTH
        if self.preview.display != is_shown:
            self.preview.display = is_shown
        self._show_preview()

    def _show_preview(self) -> None:
        """Show the rollout at the cursor beside the list."""
        run, table = self._run, self.table
        if not self.preview.display or run is None or self._reader is None:
            return
        self._previewed_at = time.monotonic()
        target = table.target()
        if target is None:
            if self.preview.shown is not None:
                self.preview.clear()
        elif target.place is None:
            self.preview.show_flight(run, table.flights.states[table.cursor])
        else:
            columns, place = run.feed.columns, target.place
            turns, notes = columns.wholes["turns"][place], columns.notes_at(place)
            self.preview.show_record(self._reader, columns.ids[place], turns, notes)

    def _lone_task(self) -> tuple[str, str] | None:
        """The environment and task id if the list is limited to one task's group."""
        line = self._run.feed.groups.find(self.rollout_query.group) if self._run and self.rollout_query.group else None
        return (line.environment, line.task_id or "") if line else None

    @property
    def task_words(self) -> str:
        """The task whose samples are listed; empty if all are."""
        group = self.rollout_query.group
        return plain_name(self._task_name(group)) if group is not None and self._run is not None else ""

    def _task_name(self, group_id: str) -> str:
        task = self._lone_task()
        return task[1] if task else group_id

    def _hint(self, run: WatchedRun) -> str:
        if self.rollout_query.latest == ["needs review"]:
            return "nothing is left to review"
        if self.rollout_query.latest:
            return f"no rollout is like that; esc clears {self.rollout_query.latest[-1]}"
        return "no rollout is done yet" if run.feed.info.status == "running" else "this run has no rollouts"

    # What is said above the table.

    def _say(self) -> None:
        run, table = self._run, self.table
        assert run is not None
        listed, flights = table.count, len(table.flights)
        total = len(run.feed.columns) if self.rollout_query.attempts else run.feed.counts.effective
        place = f"{min(table.cursor + 1, listed):,} of {listed:,}"
        parts = [self._note] if self._note else []
        parts.append(f"{place}, filtered from {total + len(run.feed.live):,}" if self.rollout_query.narrows else place)
        if flights:
            parts.append(
                f"{flights:,} in flight" if run.feed.info.status == "running" else f"{flights:,} left unfinished"
            )
        if table.marked:
            parts.append(f"{len(table.marked):,} marked (U: none)")
        if self.rollout_query.review:
            queue = run.feed.review
            parts.append(f"{len(queue):,} of {queue.total:,} left to review (v: reviewed)")
        parts += self.rollout_query.words(self._task_name)
        if self.hits is not None:
            parts.append(self.hits.words(len(run.feed.columns)))
        if self.rollout_query.latest:
            parts.append(f"esc clears {self.rollout_query.latest[-1]}")
        self._standing.say(parts)

    def _tell(self, note: str) -> None:
        """Show a message until the next action."""
        self._note = note
        if self._run is not None:
            self._say()

    def on_listing_moved(self, event: Listing.Moved) -> None:
        """Show the position of the cursor."""
        event.stop()
        self._tell("")
        self._show_preview()

    # What is read beside the screen.

    def _search(self, pattern: str) -> None:
        assert self._run is not None
        self.hits = Hits(compile_pattern(pattern))
        self.rollout_query.pattern, self.rollout_query.matching = pattern, self.hits.by_place
        self.rollout_query.note("transcripts", True)
        self._run.pattern = pattern
        self.table.matches = self.hits.by_place
        self._listed_version = 0
        self._look_through(self.hits)

    def _look_through(self, hits: Hits) -> None:
        assert self._run is not None
        self._searched_at = time.monotonic()
        hits.is_searching = True
        work = partial(hits.look_through, self._run.directory)
        self._searching = self.run_worker(work, group="search", exclusive=True)

    def _end_search(self) -> None:
        if self._searching is not None:
            self._searching.cancel()
        self.hits, self.table.matches = None, {}
        self.rollout_query.pattern, self.rollout_query.matching = None, ()
        self.rollout_query.note("transcripts", False)
        if self._run is not None:
            self._run.pattern = None

    def _take_hits(self, run: WatchedRun) -> None:
        hits = self.hits
        if hits is None:
            return
        hits.settle(run.feed.columns)
        rests = time.perf_counter() - self._listed_at > _SHARE * self._listing_seconds
        if hits.version != self._listed_version and (rests or not hits.is_searching):
            self._listed_version = hits.version
            self._list(show=False)
        is_behind = not hits.is_searching and hits.problem is None and hits.searched < len(run.feed.columns)
        if is_behind and time.monotonic() - self._searched_at > _ASK_AGAIN_SECONDS:
            self._look_through(hits)

    def _read_parts(self) -> None:
        """Read texts and reward components of visible rows in a thread, where there is room to show them."""
        if self._is_reading or self._reader is None:
            return
        now = time.monotonic()
        if self._run is not None and self._run.feed.info.status == "running" and now < self._parts_at + _PARTS_SECONDS:
            return
        places = self.table.unread() if self.table.size.width >= _ROOM_FOR_PARTS else []
        texts = self.table.unread_texts()
        if places or texts:
            self._is_reading, self._parts_at = True, now
            self.run_worker(partial(self._read, self._reader, places, texts, self._generation), group="parts")

    async def _read(self, reader: RowReader, places: list[int], texts: list[int], generation: int) -> None:
        assert self._run is not None
        ids, table = self._run.feed.columns.ids, self.table
        by_id, texts_by_id = {ids[place]: place for place in places}, {ids[place]: place for place in texts}
        try:
            found = await anyio.to_thread.run_sync(reader.components, tuple(by_id)) if by_id else {}
            read = await anyio.to_thread.run_sync(reader.previews, tuple(texts_by_id)) if texts_by_id else {}
        except (HubError, OSError):
            found, read = {}, {}  # the screen says what is wrong with the run; this is not asked again
        finally:
            self._is_reading = False
        if generation == self._generation:
            if len(table.previews) > _MOST_TEXTS:
                table.previews.clear()
            table.parts.update({place: found.get(row_id, {}) for row_id, place in by_id.items()})
            table.previews.update({place: read.get(row_id, NO_TEXTS) for row_id, place in texts_by_id.items()})
