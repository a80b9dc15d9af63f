"""The screen that compares two runs: which is better, by how much, whether by chance, and on which tasks."""

import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

import anyio.to_thread
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static
from textual.worker import Worker

from rollouthub.analysis.compare.compared_run import ComparedRun, read_compared
from rollouthub.analysis.compare.task_pairs import TaskDifference, chances, with_chances
from rollouthub.analysis.compare.worst_sample import worst_place
from rollouthub.errors import HubError
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.statistics.permutation import Chance
from rollouthub_tui.navigation import navigator
from rollouthub_tui.screens.key_hints import compare_hints
from rollouthub_tui.widgets.compare.comparison_words import SIDES, detail, headline, tally
from rollouthub_tui.widgets.compare.run_pair import Pairing, pair_up, taken
from rollouthub_tui.widgets.compare.task_table import ORDERS, TasksTable
from rollouthub_tui.widgets.key_line import KeyLine
from rollouthub_tui.widgets.safe_words import quoted
from rollouthub_tui.widgets.virtual_table import Listing

_SLICE_SECONDS = 0.2
_FAILURES = (HubError, OSError, ValueError, TypeError, sqlite3.Error)


class CompareScreen(Screen[None]):
    """Compares the second run, B, with the first, A.

    The difference of the runs is paired by task, with its 95 % interval. A task's own difference is tested by a
    permutation test of its samples' rewards, exact if they are few enough, and adjusted for the number of testable
    tasks (Benjamini and Hochberg): 5 % of the tasks called worse or better are expected to be so by chance.
    """

    DEFAULT_CSS = """
    CompareScreen > .title { height: 1; padding: 0 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
    CompareScreen > .headline { height: auto; max-height: 12; padding: 0 1; }
    CompareScreen > .tally { height: 1; padding: 0 1; margin-top: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    CompareScreen > .detail { height: 3; padding: 0 1; color: $text-muted; }
    CompareScreen > .message { display: none; height: 1fr; padding: 1 2; }
    CompareScreen.-message > .message { display: block; }
    CompareScreen.-message > TasksTable { display: none; }
    CompareScreen.-message > .headline { display: none; }
    CompareScreen.-message > .tally { display: none; }
    CompareScreen.-message > .detail { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort"),
        Binding("S", "reverse", "Reverse", show=False),
        Binding("less_than_sign", "choose(0)", "Enter opens A's rollout", key_display="<"),
        Binding("greater_than_sign", "choose(1)", "Enter opens B's rollout", key_display=">"),
        Binding("tab", "swap", "Swap A and B", priority=True),
    ]

    def __init__(self, first: Path, second: Path) -> None:
        super().__init__()
        self._directories = (first, second)
        self._read: list[ComparedRun] = []
        self.pairing: Pairing | None = None
        """The comparison; None until it is made, or if it cannot be."""
        self._found: list[Chance | None] = []
        self._chosen = 1
        self._opened: dict[Path, WatchedRun] = {}
        self._opening: Worker[None] | None = None
        self._is_settled = False
        """Whether reading has ended, with a comparison or an error."""

    def compose(self) -> ComposeResult:
        """Title, verdict, table of tasks, details of the selected task."""
        yield Static(classes="title", markup=False)
        yield Static(classes="message", markup=False)
        yield Static(classes="headline", markup=False)
        yield Static(classes="tally", markup=False)
        yield TasksTable()
        yield Static(classes="detail", markup=False)
        yield KeyLine()

    def on_mount(self) -> None:
        """Read both runs."""
        self._title()
        self.table.focus()
        self.run_worker(self._read_both, group="compare", exclusive=True)

    def on_unmount(self) -> None:
        """Close the runs whose rollouts were opened."""
        for run in self._opened.values():
            run.close()

    @property
    def table(self) -> TasksTable:
        """The table of tasks."""
        return self.query_one(TasksTable)

    @property
    def chosen(self) -> Path:
        """The run, A or B, whose rollouts are opened."""
        return self._directories[self._chosen]

    def _title(self) -> None:
        words = f"Compare   enter opens {SIDES[self._chosen]}'s worst rollout of a task"
        self.query_one(".title", Static).update(Text(words))
        self.query_one(KeyLine).show_hints(compare_hints(SIDES, self._chosen))

    def _say(self, words: str) -> None:
        self.add_class("-message")
        self.query_one(".message", Static).update(Text(words))

    def _refuse(self, error: Exception) -> None:
        self._is_settled = True
        if not self._is_gone:
            self._say(f"These runs cannot be compared:\n\n{quoted(str(error), 2000)}")

    def is_early(self, key: str) -> bool:
        """Whether the tasks are not read yet, or a rollout is being opened."""
        is_opening = self._opening is not None and not self._opening.is_finished
        return is_opening or not self._is_settled

    @property
    def _is_gone(self) -> bool:
        """Whether the screen was closed while something was read; its widgets may be gone."""
        return not self.is_attached or not self.query(TasksTable)

    async def _read_both(self) -> None:
        try:
            for place, directory in enumerate(self._directories):
                self._say(f"Reading {SIDES[place]}, {quoted(str(directory), 300)} … ({place + 1} of 2)")
                self._read.append(await anyio.to_thread.run_sync(read_compared, directory))
                if self._is_gone:
                    return
        except _FAILURES as error:
            self._refuse(error)
            return
        await self._compare()

    async def _compare(self) -> None:
        self._is_settled = False
        self._say("Comparing …")
        first, second = self._read
        try:
            self.pairing = await anyio.to_thread.run_sync(pair_up, first, second)
        except _FAILURES as error:
            self._refuse(error)
            return
        if self._is_gone:
            return
        self._found, self._is_settled = [], True
        self.remove_class("-message")
        self._headline()
        self._show(self.pairing.tasks, done=0)
        self.table.focus()
        await self._test(self.pairing)

    async def _test(self, pairing: Pairing) -> None:
        """Test every task, in short steps, since many samples with many different rewards take seconds."""
        every = chances(pairing.tasks)
        while len(self._found) < len(pairing.tasks):
            self._found += await anyio.to_thread.run_sync(taken, every, _SLICE_SECONDS)
            if self._is_gone:
                return
            self._tally(pairing.tasks, len(self._found))
        judged = await anyio.to_thread.run_sync(with_chances, pairing.tasks, self._found)
        if not self._is_gone:
            self._show(judged, done=None)

    def _show(self, tasks: Sequence[TaskDifference], done: int | None) -> None:
        self.table.show_tasks(tasks)
        self._tally(tasks, done)
        self._detail()

    def _headline(self) -> None:
        if self.pairing is not None:
            self.query_one(".headline", Static).update(headline(self.pairing, self.size.width - 2))

    def _tally(self, tasks: Sequence[TaskDifference], done: int | None) -> None:
        self.query_one(".tally", Static).update(tally(tasks, done), layout=False)

    def _detail(self) -> None:
        task = self.table.current
        if task is not None:
            self.query_one(".detail", Static).update(detail(task), layout=False)

    def on_resize(self, event: Resize) -> None:
        """Lay out for the new width."""
        self._headline()

    def on_listing_moved(self, event: Listing.Moved) -> None:
        """Show details of the selected task."""
        self._detail()

    def on_listing_opened(self, event: Listing.Opened) -> None:
        """Open the worst rollout of the selected task in the chosen run."""
        task = self.table.current
        if task is not None:
            self._opening = self.run_worker(partial(self._open, self.chosen, task), group="open", exclusive=True)

    async def _open(self, directory: Path, task: TaskDifference) -> None:
        where = navigator(self)
        run = self._opened.get(directory)
        if run is None:
            run = WatchedRun(directory, where.environ, where.clock)
            try:
                await run.open()
            except _FAILURES as error:
                run.close()
                self.notify(quoted(str(error), 1000), title="Cannot be opened", severity="error", markup=False)
                return
            if self._is_gone:
                run.close()
                return
            self._opened[directory] = run
        columns = run.feed.columns
        place = worst_place(columns, task.key)
        if place is None:
            self.notify("The task is not in this run any more.", severity="warning", markup=False)
            return
        where.open_rollout(run, columns.texts["rollout_id"][place], columns.wholes["attempt"][place])

    def action_choose(self, side: int) -> None:
        """Choose the run whose rollouts are opened."""
        self._chosen = side
        self._title()

    def action_sort(self) -> None:
        """Sort the tasks by the next order."""
        table = self.table
        table.sort(ORDERS[(ORDERS.index(table.order) + 1) % len(ORDERS)], is_reversed=False)
        self.notify(f"sorted by {table.order}", timeout=1.5, markup=False)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.table.sort(self.table.order, is_reversed=not self.table.is_reversed)

    def action_swap(self) -> None:
        """Exchange A and B."""
        if len(self._read) == 2:
            self._read.reverse()
            self._directories = (self._directories[1], self._directories[0])
            self._title()
            self.run_worker(self._compare, group="compare", exclusive=True)
