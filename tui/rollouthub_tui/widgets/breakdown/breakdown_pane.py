"""The pane with the breakdowns of a run: by tool, finish reason, stop, tag and fault. Read beside the screen."""

import time
from functools import partial
from typing import ClassVar

import anyio.to_thread
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from rollouthub.analysis.breakdowns import KINDS, BreakdownLine, Breakdowns, Kind, RowsCopy
from rollouthub.errors import HubError, said
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.text import plain_name
from rollouthub_tui.widgets.breakdown.breakdown_table import TITLES, BreakdownTable
from rollouthub_tui.widgets.rollouts.status_line import Standing
from rollouthub_tui.widgets.virtual_table import Listing

_REST_SECONDS, _REST_SHARE = 2.0, 20
"""After a reading, at least so many seconds, and so many times its duration, pass before the next one."""


class BreakdownPane(Widget):
    """One kind of breakdown at a time; the screen calls `show` at each tick while the pane is visible.

    When a line is opened, `Chosen` asks the screen to list its rollouts.
    """

    DEFAULT_CSS = """
    BreakdownPane { height: 1fr; layout: vertical; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,right_square_bracket", "kind(1)", "By what comes next: tool, finish reason …", show=False),
        Binding("left,left_square_bracket", "kind(-1)", "By what comes before", show=False),
    ]

    class Chosen(Message):
        """Posted to list the rollouts of a line."""

        def __init__(self, kind: Kind, line: BreakdownLine) -> None:
            super().__init__()
            self.kind: Kind = kind
            self.line = line

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.table = BreakdownTable()
        self._standing = Standing()
        self._run: WatchedRun | None = None
        self._generation = -1
        self._reader: Breakdowns | None = None
        self._lines: dict[Kind, list[BreakdownLine]] = {}
        self._state: tuple[int, ...] = ()
        self._again = 0.0
        self._is_reading = False
        self._note = ""

    def compose(self) -> ComposeResult:
        """A line that says which breakdown it is, and the table."""
        yield self._standing
        yield self.table

    def on_unmount(self) -> None:
        """Close the reader."""
        if self._reader is not None:
            self._reader.close()

    def focus(self, scroll_visible: bool = True, **_: bool) -> "BreakdownPane":
        """Focus its table."""
        self.table.focus(scroll_visible)
        return self

    def show(self, run: WatchedRun) -> None:
        """Update the breakdowns from the run, if it has changed and the last reading is long enough ago."""
        if not run.is_open:
            return
        columns, notes = run.feed.columns, run.feed.notes
        if run is not self._run or columns.generation != self._generation:
            self._begin(run)
        state = (len(columns), len(columns.withdrawn), notes.version)
        if state != self._state and not self._is_reading and time.monotonic() >= self._again:
            self._is_reading, self._state = True, state
            assert self._reader is not None
            rows = RowsCopy.of(columns, notes)
            self.run_worker(partial(self._read, self._reader, rows), group="breakdown")
        self._say()

    def _begin(self, run: WatchedRun) -> None:
        if self._reader is not None:
            self._reader.close()
        self._run, self._generation = run, run.feed.columns.generation
        self._reader, self._lines, self._state, self._again = Breakdowns(run.directory), {}, (), 0.0
        self.table.is_read = False
        self._take()

    async def _read(self, reader: Breakdowns, rows: RowsCopy) -> None:
        began, last = time.monotonic(), rows.ids[-1] if rows.ids else 0
        try:
            while reader.read_up_to < last and reader is self._reader:
                self._note = f"read {reader.read_up_to / last:.0%}" if reader.read_up_to else ""
                await anyio.to_thread.run_sync(reader.read_more, last)
            lines = await anyio.to_thread.run_sync(reader.lines, rows)
            self._note = ""
        except (HubError, OSError) as error:
            lines, self._note = None, plain_name(said(error))
        finally:
            ended = time.monotonic()
            self._is_reading, self._again = False, ended + max(_REST_SECONDS, _REST_SHARE * (ended - began))
        if reader is self._reader and lines is not None and self.is_attached:
            self._lines, self.table.is_read = lines, True
            self._take()

    def _take(self) -> None:
        self.table.take(self.table.kind, self._lines.get(self.table.kind, ()))
        self._say()

    def _say(self) -> None:
        table = self.table
        kinds = (f"[{TITLES[kind]}]" if kind == table.kind else TITLES[kind] for kind in KINDS)
        parts = [f"by {'  '.join(kinds)}  (← →)"]
        if table.count:
            parts.append(f"{table.cursor + 1:,} of {table.count:,}")
        self._standing.say([*parts, *([self._note] if self._note else [])])

    def action_kind(self, by: int) -> None:
        """Break the run down by something else."""
        kind = KINDS[(KINDS.index(self.table.kind) + by) % len(KINDS)]
        self.table.take(kind, self._lines.get(kind, ()))
        self._say()

    def on_listing_moved(self, event: Listing.Moved) -> None:
        """Show the position of the cursor."""
        event.stop()
        self._say()

    def on_listing_opened(self, event: Listing.Opened) -> None:
        """Ask the screen to list the line's rollouts."""
        event.stop()
        if (line := self.table.line) is not None:
            self.post_message(self.Chosen(self.table.kind, line))
