"""The screen with the runs of this machine: live ones first, then ended ones."""

import sqlite3
import time
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, cast

import anyio.to_thread
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input, Static

from rollouthub.errors import HubError, said
from rollouthub.live.follow import RunsFeed, SeenRun, parse_filter
from rollouthub.live.follow.run_tallies import Tallies
from rollouthub.statistics.amounts import moment
from rollouthub.store import RunInfo
from rollouthub_tui.navigation import navigator
from rollouthub_tui.screens.key_hints import runs_hints
from rollouthub_tui.widgets.cells import next_order
from rollouthub_tui.widgets.key_line import KeyLine
from rollouthub_tui.widgets.rollouts.filter_input import Entry
from rollouthub_tui.widgets.run_list.run_columns import RUN_FIELDS, SORTS
from rollouthub_tui.widgets.run_list.run_table import RunsTable
from rollouthub_tui.widgets.run_list.run_words import age, done_of, pace_of
from rollouthub_tui.widgets.safe_words import quoted
from rollouthub_tui.widgets.virtual_table import Listing

_SECONDS = 1.0
_AT_ONCE = 32
"""Runs outside the screen whose figures are read at a time, where the list is sorted or filtered by them."""
_BREATH = 5
"""After a search for runs, this many times its duration passes before the next, so that it uses a sixth of the time."""


class Search(Input):
    """The input line for letters that runs are searched by."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "screen.end_search", "End the search", show=False),
        Binding("down", "screen.to_table", "To the runs", show=False),
    ]


class RunsScreen(Screen[None]):
    """The list of runs, to open one or compare two."""

    DEFAULT_CSS = """
    RunsScreen > .title { height: 1; padding: 0 1; text-style: bold; text-wrap: nowrap; text-overflow: ellipsis; }
    RunsScreen > Search { display: none; height: 1; border: none; padding: 0 1; background: $panel; }
    RunsScreen > Search.-shown { display: block; }
    RunsScreen > .empty { display: none; padding: 1 2; height: 1fr; }
    RunsScreen.-empty > .empty { display: block; }
    RunsScreen.-empty > RunsTable { display: none; }
    RunsScreen > .detail { height: 3; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    RunsScreen > .detail.-broken { text-wrap: wrap; color: $text-error; }
    RunsScreen > .problem { display: none; height: auto; max-height: 3; padding: 0 1; color: $text-error; }
    RunsScreen > .problem.-shown { display: block; }
    """
    AUTO_FOCUS = ""
    """Textual must not choose the focus: without runs it would be the hidden search line."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark"),
        Binding("c", "compare", "Compare"),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("f", "filter", "Filter", tooltip='By an expression: reward < 0.5 and model ~ "qwen"'),
        Binding("s,greater_than_sign", "sort(1)", "Sort", tooltip="By the next column"),
        Binding("less_than_sign", "sort(-1)", "Sort by the previous column", show=False),
        Binding("S", "reverse", "Reverse the order", show=False),
        Binding("y", "copy", "Copy path", show=False),
        Binding("escape", "end_search", "End the search, or the filter", show=False),
    ]

    def compose(self) -> ComposeResult:
        """Title, search, table, details of the selected run, problem line."""
        where = navigator(self)
        self._feed = RunsFeed(where.roots, where.environ)
        self._tallies = Tallies()
        self._is_looking = self._is_reading = False
        self._has_looked = False
        self._again = 0.0
        self._failure: str | None = None
        yield Static(classes="title", markup=False)
        yield Search(placeholder="name, environment, model …", compact=True)
        yield RunsTable(self._tallies, where.clock)
        yield Static(classes="empty", markup=False)
        yield Static(classes="detail", markup=False)
        yield Static(classes="problem", markup=False)
        yield Entry()
        yield KeyLine()

    def on_mount(self) -> None:
        """Read the runs now and at intervals."""
        self.table.focus()
        self._title()
        self.set_interval(_SECONDS, self._tick)
        self._tick()

    def on_screen_resume(self) -> None:
        """Refresh at once, since runs may have ended meanwhile."""
        self._again = 0.0
        self._tick()

    @property
    def table(self) -> RunsTable:
        """The table of runs."""
        return self.query_one(RunsTable)

    def is_early(self, key: str) -> bool:
        """Whether the runs have not been read yet."""
        return not self._has_looked

    @property
    def _is_gone(self) -> bool:
        """Whether the screen was closed while something was read; its widgets may be gone."""
        return not self.is_attached or not self.query(RunsTable)

    def _tick(self) -> None:
        # A look that takes long is not begun anew: it would never end.
        if self.is_active and not self._is_looking and time.monotonic() >= self._again:
            self._is_looking = True
            self.run_worker(self._look, group="look")

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            await self._feed.refresh()
            self._failure = None
        except (HubError, OSError, ValueError, TypeError, sqlite3.Error) as error:
            self._failure = f"the runs could not be looked at: {said(error)}"
        finally:
            self._is_looking = False
        ended = time.monotonic()
        self._again = ended + _BREATH * (ended - began)
        self._has_looked = True
        if self._is_gone:
            return
        self.table.show_runs(self._feed.runs)
        self._show()
        self._read_tallies()

    def _read_tallies(self) -> None:
        """Read the figures of the visible runs in a thread."""
        if self._is_reading or self._is_gone:
            return
        table = self.table
        wanted = [*(table.shown[row] for row in table.visible_rows()), *table.unread[:_AT_ONCE]]
        if wanted:
            self._is_reading = True
            self.run_worker(partial(self._read, wanted), group="tallies")

    async def _read(self, wanted: Sequence[SeenRun]) -> None:
        try:
            is_new = await anyio.to_thread.run_sync(self._tallies.read, wanted)
        finally:
            self._is_reading = False
        if self._is_gone:
            return
        if is_new:
            self.table.read_again()
            self._show()
        table, read = self.table, {run.directory for run in wanted}
        if table.unread or not read.issuperset(table.shown[row].directory for row in table.visible_rows()):
            self._read_tallies()  # it was scrolled or sorted meanwhile, or there are more

    def _show(self) -> None:
        self._title()
        self._empty()
        self._detail()
        told = [*([self._failure] if self._failure else []), *self._feed.problems]
        problem = self.query_one(".problem", Static)
        problem.set_class(bool(told), "-shown")
        if told:
            more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
            _tell(problem, Text(f"! {quoted(told[0], 400)}{more}"), layout=True)

    def _title(self) -> None:
        runs, table = self._feed.runs, self.table
        live = sum(run.is_live for run in runs)
        words = f"Runs   {len(runs):,}, {live} live" if self._has_looked else "Runs   looking …"
        if table.search:
            words += f"   {table.count:,} match {table.search!r}"
        if table.where.columns:
            words += f"   {table.count:,} of filter {quoted(table.where.text, 200)}"
        if table.order:
            words += f"   by {table.order.replace('_', ' ')} {'▼' if table.descending else '▲'}"
        if table.marked:
            words += f"   {len(table.marked)} marked"
        _tell(self.query_one(".title", Static), Text(words))
        entry = self.query_one(Entry)
        is_asking = self.query_one(Search).has_focus or bool(entry.display)
        narrowed = "search" if table.search else "filter" if table.where.columns else ""
        hints = runs_hints(len(table.marked), is_asking=is_asking, narrowed=narrowed)
        self.query_one(KeyLine).show_hints(hints)

    def on_descendant_focus(self) -> None:
        """Show the keys of what has the focus."""
        self._title()

    def _empty(self) -> None:
        table = self.table
        is_empty = not table.count and self._has_looked
        self.set_class(is_empty, "-empty")
        if not is_empty:
            return
        if table.search and self._feed.runs:
            words = f"No run has the letters {table.search!r} in its name, environments, agent or model.\n\n"
            words += "escape ends the search."
        elif table.where.columns and self._feed.runs:
            words = f"No run is like that: {quoted(table.where.text, 400)}\n\nescape clears the filter."
        else:
            roots = navigator(self).roots
            folders = "\n".join(f"  {quoted(str(root.absolute()), 400)}" for root in roots) or "  none"
            words = (
                "There are no runs yet. Make one in another terminal:\n\n  hub run arithmetic\n\n"
                f"It appears here while it plays. Folders that were looked in:\n\n{folders}"
            )
        _tell(self.query_one(".empty", Static), Text(words))

    def _detail(self) -> None:
        detail, run = self.query_one(".detail", Static), self.table.current
        if run is None:
            _tell(detail, Text(""))
            return
        line, tally = self.table.line(run), self._tallies.of(run)
        detail.set_class(line.problem is not None, "-broken")
        if line.problem is not None:
            _tell(detail, Text(line.problem))
            return
        facts = [done_of(line, tally) + " done"]
        if tally is not None and tally.done is not None and tally.scored != tally.done:
            facts.append(f"{tally.scored:,} scored")
        facts += [words for words in (pace_of(line, tally, self.table.rate(run, tally)),) if words]
        if isinstance(run.info, RunInfo):
            facts.append(f"created {moment(run.info.created_at)}")
            if run.info.finished_at is not None:
                ended = age(run.info.finished_at, navigator(self).clock())
                facts.append("ended now" if ended == "now" else f"ended {ended} ago")
            if run.info.stopped:
                facts.append(f"stopped: {quoted(run.info.stopped, 200)}")
        if run.is_live:
            facts.append("can be steered" if run.socket else "its hub has no socket here: it can only be watched")
        # One line: a name may hold what ends lines.
        path = " ".join(quoted(str(run.directory), 1000).split())
        who = f"{line.environments}   {line.agent}   {line.model}"
        _tell(detail, Text("\n".join((path, who, ", ".join(facts)))))

    def on_listing_moved(self, event: Listing.Moved) -> None:
        """Show details of the selected run."""
        self._detail()
        self._read_tallies()

    def on_listing_opened(self, event: Listing.Opened) -> None:
        """Open the selected run if it can be read."""
        run = self.table.current
        if run is None:
            return
        if not isinstance(run.info, RunInfo):
            self.notify(self.table.line(run).problem or "", title="Cannot be opened", severity="error", markup=False)
            return
        navigator(self).open_run(run.directory)

    def action_mark(self) -> None:
        """Mark the selected run for a comparison, or unmark it."""
        self.table.toggle_mark()
        self._title()

    def action_compare(self) -> None:
        """Compare the two marked runs, or the marked one with the selected one."""
        chosen, run = list(self.table.marked), self.table.current
        if len(chosen) == 1 and run is not None and run.directory != chosen[0]:
            chosen.append(run.directory)
        if len(chosen) != 2:
            words = "Mark two runs with space, then press c; or mark one, and go to the other."
            if len(chosen) > 2:
                words = f"{len(chosen)} runs are marked, and two are compared: unmark the others with space."
            self.notify(words, severity="warning", markup=False)
            return
        navigator(self).open_comparison(chosen[0], chosen[1])

    def action_copy(self) -> None:
        """Copy the run's path."""
        run = self.table.current
        if run is not None:
            path = str(run.directory.absolute())
            _app(self).copy_to_clipboard(path)
            self.notify(f"Copied {quoted(path, 300)}", markup=False)

    def action_search(self) -> None:
        """Open the search line."""
        search = self.query_one(Search)
        search.add_class("-shown")
        search.focus()

    def action_end_search(self) -> None:
        """End the search, else the filter, and show all runs."""
        search = self.query_one(Search)
        if not search.has_class("-shown") and not search.value:
            if self.table.where.columns:
                self._narrow("")
            return
        search.value = ""
        search.remove_class("-shown")
        self.table.focus()

    def action_to_table(self) -> None:
        """Move the focus from the search line to the matching runs."""
        self.table.focus()

    def action_filter(self) -> None:
        """Ask for a filter."""
        hint, text = 'reward < 0.5 and model ~ "qwen"', self.table.where.text
        self.query_one(Entry).ask("filter", "filter", text, hint, partial(parse_filter, fields=RUN_FIELDS))

    def on_entry_entered(self, event: Entry.Entered) -> None:
        """Show only the runs that the filter holds for."""
        self._narrow(event.text.strip())

    def on_entry_left(self) -> None:
        """Go back to the runs."""
        self._to_runs()

    def _narrow(self, text: str) -> None:
        self.table.narrow(parse_filter(text, RUN_FIELDS))
        self._to_runs()

    def _to_runs(self) -> None:
        self.table.focus()
        self._show()
        self._read_tallies()

    def action_sort(self, step: int) -> None:
        """Sort by the next or the previous column."""
        self._sort(next_order(self.table.orders, self.table.order, step))

    def on_listing_sorted(self, event: Listing.Sorted) -> None:
        """Sort by the clicked column; if it is sorted by already, reverse the order."""
        by = SORTS.get(event.name)
        if by is not None and by == self.table.order:
            self.action_reverse()
        elif by is not None:
            self._sort(by)

    def _sort(self, order: str) -> None:
        # Of numbers, the largest come first; of names, the first; of runs, the newest.
        self.table.sort(order, descending=RUN_FIELDS.kinds.get(order) == "real" and order != "age")
        self._show()
        self._read_tallies()

    def action_reverse(self) -> None:
        """Reverse the order."""
        table = self.table
        table.sort(table.order or "age", descending=not table.descending)
        self._show()
        self._read_tallies()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show only the runs that match the letters."""
        self.table.find(event.value)
        self._show()
        self._read_tallies()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Move the focus to the matching runs."""
        if not event.value:
            self.action_end_search()
        self.table.focus()


def _app(node: DOMNode) -> "App[None]":
    return cast("App[None]", navigator(node))


def _tell(static: Static, text: Text, *, layout: bool = False) -> None:
    """Set a widget's text if it has changed; `layout` if its height depends on the text."""
    before = static.content
    if not (isinstance(before, Text) and before == text and before.spans == text.spans):
        static.update(text, layout=layout)
