"""The tasks of a run: the results of each task's samples, and whether their rewards differ, as training needs."""

import time
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

import anyio.to_thread
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from rollouthub.errors import HubError
from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.group_tables import GroupLine, Lines
from rollouthub.live.follow.row_previews import RowPreview
from rollouthub.live.follow.row_reader import RowReader
from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.statistics.amounts import NONE, count, number, share, short
from rollouthub_tui.widgets.cells import Cell, Column, arrowed, next_order
from rollouthub_tui.widgets.plain_ground import ground_lines
from rollouthub_tui.widgets.rollouts.live_table import LiveTable
from rollouthub_tui.widgets.rollouts.row_words import name_of, shortened
from rollouthub_tui.widgets.rollouts.status_line import Standing
from rollouthub_tui.widgets.virtual_table import Listing

Order = Literal["met", "task", "rollouts", "mean_reward", "pass_rate", "deviation"]
_LEAST_PROMPT, _MOST_PROMPTS = 24, 4096
"""Cells from which prompts are shown, and the most that are kept: of tasks seen earlier they are read again."""
_LOOKED_AT_PROMPTS = 8
"""Number of tasks by which it is known whether a run has prompts."""
_ORDERS: tuple[Order, ...] = ("met", "task", "rollouts", "pass_rate", "mean_reward", "deviation")
_LOOKED_AT = 20
"""Groups are sorted again only after this many times the duration of the last sort,"""
_REST_SECONDS = 1.0
"""and after this many seconds at the earliest."""


class TaskTable(LiveTable):
    """A line for each task's group of samples."""

    def __init__(self) -> None:
        super().__init__()
        self.order: Order = "met"
        self.descending = False
        self.lines: Lines | None = None
        self._feed: RunFeed | None = None
        self._places: Sequence[int] = ()
        self._rows: dict[int, int] | None = None
        self._samples = 0
        self._sorted_at = self._sorting_seconds = 0.0
        self._width = 16
        self._known = 0
        self._generation = -1
        self.prompts: dict[int, str] = {}
        """The prompt of a group, by its index, as far as they were read; empty where there is none."""

    def begin(self, feed: RunFeed) -> None:
        """Show a run from the beginning."""
        self.lines, self._feed = feed.groups, feed
        self._known, self._width, self._generation = 0, 16, feed.columns.generation
        self.prompts = {}
        self.put_in_order()
        self.restart()

    def put_in_order(self) -> None:
        """Sort the table now."""
        assert self.lines is not None
        began = time.monotonic()
        by, lines = self.order, self.lines
        if by == "met":
            self._places = range(len(lines) - 1, -1, -1) if self.descending else range(len(lines))
        elif by == "task":
            names = [lines.line(place).task_id or "" for place in range(len(lines))]
            self._places = sorted(range(len(lines)), key=names.__getitem__, reverse=self.descending)
        else:
            self._places = lines.places(by, descending=self.descending)
        self._rows = None
        self._sorted_at = time.monotonic()
        self._sorting_seconds = self._sorted_at - began

    def take(self) -> None:
        """Update the rows; sort them if there are more samples and the last sort is long enough ago."""
        assert self._feed is not None
        self.lines, samples = self._feed.groups, len(self._feed.columns)
        rest = max(_REST_SECONDS, _LOOKED_AT * self._sorting_seconds)
        is_due = self.order == "met" or time.monotonic() - self._sorted_at >= rest
        if is_due and (samples != self._samples or len(self._places) != len(self.lines)):
            self._samples = samples
            self.put_in_order()
        self._widen()
        self.update_rows()

    def _widen(self) -> None:
        assert self.lines is not None
        new = range(self._known, min(len(self.lines), self._known + 1000))  # of many, the rest at the next ticks
        widest = max([self._width, *(len(self.lines.line(place).task_id or "") for place in new)])
        self._known = new.stop
        if widest != self._width:
            self._width = widest
            self.remake()

    @property
    def count(self) -> int:
        """The number of groups when they were last sorted."""
        if self._feed is None or self._feed.columns.generation != self._generation:
            return 0  # all was read anew, and is shown at the next tick
        return len(self._places)

    @property
    def line(self) -> GroupLine | None:
        """The selected group; None if there is none."""
        return self._group(self.cursor) if self.cursor < self.count else None

    def _group(self, row: int) -> GroupLine:
        assert self.lines is not None
        return self.lines.line(self._places[row])

    def key(self, row: int) -> Hashable:
        """The group's index in the unsorted list."""
        return self._places[row]

    def row_of(self, key: Hashable) -> int | None:
        """The row of a group in the present order."""
        if not isinstance(key, int):
            return None
        if isinstance(self._places, range):
            return self._places.index(key) if key in self._places else None
        if self._rows is None:
            self._rows = {place: row for row, place in enumerate(self._places)}
        return self._rows.get(key)

    def row_named(self, group_id: str) -> int | None:
        """The row of the group with this id; None if there is none."""
        assert self._feed is not None
        return self.row_of(self._feed.columns.words["group_id"].code(group_id))

    def stamp(self, row: int) -> Hashable:
        """The values that determine a row's line."""
        return self._group(row), self._places[row] in self.prompts

    def fit(self, width: int) -> Sequence[Column]:
        """The columns that fit; the prompt takes what is left, where there is room and any task has one."""
        has_environments = self._feed is not None and len(self._feed.columns.words["environment"].vocabulary) > 1
        wanted = [("passed", 7), ("reward", 8), ("deviation", 24), ("done", 7), ("environment", 16), ("tokens", 7)]
        titles = {"done": "samples", "passed": "passed", "reward": "mean", "deviation": "std"}
        left = width - 12
        widths: dict[str, int] = {}
        for name, cells in wanted:
            if cells + self.GAP <= left and (name != "environment" or has_environments):
                widths[name] = cells
                left -= cells + self.GAP
        more = max(0, min(left, self._width - 12))
        shown, left = [Column("task", "task", 12 + more)], left - more - self.GAP
        for name in ("done", "passed", "reward", "deviation", "environment", "tokens"):
            if name in widths:
                is_right = name in ("done", "passed", "reward", "tokens")
                shown.append(Column(name, titles.get(name, name), widths[name], is_right))
        if left >= _LEAST_PROMPT and (len(self.prompts) < _LOOKED_AT_PROMPTS or any(self.prompts.values())):
            shown.append(Column("prompt", "prompt", left))
        return [
            arrowed(column, descending=self.descending) if BY.get(column.name) == self.order else column
            for column in shown
        ]

    def cells(self, row: int, columns: Sequence[Column]) -> Sequence[Cell]:
        """The cells of a row."""
        line, prompt = self._group(row), self.prompts.get(self._places[row], "")
        return [Cell(prompt) if column.name == "prompt" else _cell(line, column) for column in columns]

    def unread(self) -> list[int]:
        """Indices of visible groups whose prompts are shown, and have not been read yet."""
        if all(column.name != "prompt" for column in self.shown_columns):
            return []
        return [place for row in self.visible_rows() if (place := self._places[row]) not in self.prompts]

    def take_prompts(self, prompts: Mapping[int, str]) -> None:
        """Show prompts that were read."""
        if len(self.prompts) > _MOST_PROMPTS:
            self.prompts.clear()
        self.prompts.update(prompts)
        self.remake()


BY: dict[str, Order] = {
    "task": "task",
    "done": "rollouts",
    "passed": "pass_rate",
    "reward": "mean_reward",
    "deviation": "deviation",
}
"""The order that a click on a column's title sorts by."""
_WORDS: dict[Order, str] = {
    "met": "as they were met",
    "task": "by task",
    "rollouts": "by samples",
    "mean_reward": "by mean reward",
    "pass_rate": "by pass rate",
    "deviation": "by std of rewards",
}


def _cell(line: GroupLine, column: Column) -> Cell:
    match column.name:
        case "task":
            return Cell(shortened(name_of(line.task_id or line.name), column.width))
        case "done":
            return Cell(f"{line.counts.planned:,}")
        case "passed":
            return Cell(share(line.pass_rate))
        case "reward":
            return Cell(number(line.mean_reward))
        case "deviation":
            return spread(line)
        case "environment":
            return Cell(name_of(line.environment))
        case _:
            return Cell(short(line.output_tokens))


def spread(line: GroupLine) -> Cell:
    """The spread of a group's rewards as a cell; if they are equal, a trainer learns nothing from them."""
    if line.deviation is None:
        return Cell(NONE)
    if line.deviation == 0:
        return Cell(f"{number(0.0)} nothing to learn", "yellow")
    return Cell(number(line.deviation))


class TasksPane(Widget):
    """The tasks of a run; the screen calls `show` at each tick while the pane is visible.

    When a task is opened, `Chosen` asks the screen to list its rollouts with `RolloutsPane.only_group(group_id)`.
    `go_to(group_id)` moves the cursor to a task, for `RolloutsPane.ByTask`.
    """

    DEFAULT_CSS = """
    TasksPane { height: 1fr; layout: vertical; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,greater_than_sign", "sort(1)", "Sort", tooltip="By the next column"),
        Binding("less_than_sign", "sort(-1)", "Sort by the previous column", show=False),
        Binding("S", "reverse", "Reverse the order", show=False),
    ]

    class Chosen(Message):
        """Posted to show a task's rollouts."""

        def __init__(self, group_id: str) -> None:
            super().__init__()
            self.group_id = group_id

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._run: WatchedRun | None = None
        self._generation = -1
        self._wanted: str | None = None
        self._reader: RowReader | None = None
        self._is_reading = False
        self.table = TaskTable()
        self._standing = Standing()

    def render_lines(self, crop: Region) -> list[Strip]:
        """The background, to paint."""
        return ground_lines(self, crop)

    def compose(self) -> ComposeResult:
        """A line that describes the list, and the table."""
        yield self._standing
        yield self.table

    @property
    def target(self) -> Target | None:
        """Always None: a task is not a rollout."""
        return None

    def focus(self, scroll_visible: bool = True, **_: bool) -> "TasksPane":
        """Focus its table."""
        self.table.focus(scroll_visible)
        return self

    def show(self, run: WatchedRun) -> None:
        """Update the table from the run."""
        if not run.is_open:
            return
        generation = run.feed.columns.generation
        if run is not self._run or generation != self._generation:
            if run is not self._run:
                self.on_unmount()
                self._reader = RowReader(run.directory)
            self._run, self._generation = run, generation
            self.table.begin(run.feed)
        self.table.take()
        if self._wanted is not None:
            self.table.go(self.table.row_named(self._wanted))
            self._wanted = None
        self._say()
        self._read_prompts()

    def on_unmount(self) -> None:
        """Close the reader of prompts."""
        if self._reader is not None:
            self._reader.close()

    def _read_prompts(self) -> None:
        """Read the prompts of the visible tasks in a thread."""
        if self._run is None or self._reader is None or self._is_reading:
            return
        columns, lines = self._run.feed.columns, self._run.feed.groups
        wanted = {place: columns.ids[lines.example(place)] for place in self.table.unread()}
        if wanted:
            self._is_reading = True
            self.run_worker(partial(self._read, self._reader, wanted, self._generation), group="prompts")

    async def _read(self, reader: RowReader, wanted: Mapping[int, int], generation: int) -> None:
        try:
            found = await anyio.to_thread.run_sync(reader.previews, tuple(wanted.values()))
        except (HubError, OSError):
            found = {}  # the screen says what is wrong with the run; this is not asked again
        finally:
            self._is_reading = False
        if generation == self._generation and self.is_attached:
            none = RowPreview()
            self.table.take_prompts({place: found.get(row, none).prompt or "" for place, row in wanted.items()})

    def go_to(self, group_id: str | None) -> None:
        """Move the cursor to a task once it is listed."""
        self._wanted = group_id
        if self._run is not None:
            self.show(self._run)

    def _say(self) -> None:
        table = self.table
        arrow = ("" if table.order == "met" else " ▲") if not table.descending else " ▼"
        parts = [f"{min(table.cursor + 1, table.count):,} of {count(table.count, 'task')}"]
        self._standing.say([*parts, _WORDS[table.order] + arrow, "enter lists its rollouts"])

    def on_listing_moved(self, event: Listing.Moved) -> None:
        """Show the position of the cursor."""
        event.stop()
        if self._run is not None:
            self._say()
            self._read_prompts()

    def on_listing_opened(self, event: Listing.Opened) -> None:
        """Ask the screen to show the task's rollouts."""
        event.stop()
        if (line := self.table.line) is not None:
            self.post_message(self.Chosen(line.name))

    def on_listing_sorted(self, event: Listing.Sorted) -> None:
        """Sort by the clicked column; if it is sorted by already, reverse the order."""
        event.stop()
        by = BY.get(event.name)
        if by is not None:
            self._sort(by, not self.table.descending if by == self.table.order else by not in ("task", "deviation"))

    def action_sort(self, step: int) -> None:
        """Sort by the next or the previous column."""
        by: Order = next_order(_ORDERS, self.table.order, step)
        self._sort(by, by in ("rollouts", "pass_rate", "mean_reward"))

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._sort(self.table.order, not self.table.descending)

    def _sort(self, by: Order, descending: bool) -> None:
        if self._run is None:
            return
        self.table.order, self.table.descending = by, descending
        self.table.put_in_order()
        self.table.remake()
        self.show(self._run)
