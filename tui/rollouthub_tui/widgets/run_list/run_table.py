"""The table of runs."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rollouthub.live.follow import RolloutFilter, SeenRun, parse_filter
from rollouthub.live.follow.attempt_columns import Value
from rollouthub.live.follow.fuzzy import closeness
from rollouthub.live.follow.run_tallies import Tallies, Tally
from rollouthub.store import RunInfo
from rollouthub_tui.widgets.cells import EMPTY, MARKED, Cell, Column, arrowed, widest
from rollouthub_tui.widgets.run_list.pace import Pace
from rollouthub_tui.widgets.run_list.run_columns import FIGURES, RUN_FIELDS, SORTS, RunColumns, facts_of
from rollouthub_tui.widgets.run_list.run_words import (
    STYLES,
    Line,
    age,
    bar,
    done_of,
    line_of,
    pace_of,
    passes_of,
    reward_of,
    unscored_of,
    when,
)
from rollouthub_tui.widgets.safe_words import named
from rollouthub_tui.widgets.virtual_table import Listing, shared_out

WIDE, MIDDLE = 150, 108
_LOOKED_AT = 200
"""Runs by which it is known whether any has rollouts without a score."""


class RunsTable(Listing):
    """The runs that match a search, live ones first."""

    def __init__(self, tallies: Tallies, clock: Callable[[], float]) -> None:
        super().__init__()
        self.tallies, self._clock = tallies, clock
        self.marked: list[Path] = []
        """Directories of the marked runs, in the order in which they were marked."""
        self.search = ""
        self.where = parse_filter("", RUN_FIELDS)
        self.order = ""
        """The field that the runs are sorted by (`SORTS`); empty for live ones first, then the newest."""
        self.descending = False
        self._all: Sequence[SeenRun] = ()
        self.shown: list[SeenRun] = []
        """The runs that match the search."""
        self._lines: dict[Path, tuple[SeenRun, Line]] = {}
        self._paces: dict[Path, Pace] = {}
        self._names: Counter[str] = Counter()
        self._wanted: dict[str, int] = {}
        """Column → cells of its widest content."""
        self._is_lossy = self._plays = False
        """Whether any run has rollouts without a score."""

    @property
    def count(self) -> int:
        """The number of runs that match the search."""
        return len(self.shown)

    @property
    def current(self) -> SeenRun | None:
        """The run at the cursor."""
        return self.shown[self.cursor] if self.shown else None

    def show_runs(self, runs: Sequence[SeenRun]) -> None:
        """Replace the runs; the cursor stays at its run."""
        now, there = self._clock(), {run.directory for run in runs}
        self._all = runs
        self._lines = {directory: kept for directory, kept in self._lines.items() if directory in there}
        self.marked = [directory for directory in self.marked if directory in there]
        self._paces = {run.directory: self._paces.get(run.directory) or Pace() for run in runs if run.is_live}
        for run in runs:
            tally = self.tallies.of(run) if run.is_live else None
            if tally is not None and tally.done is not None:
                self._paces[run.directory].look(now, tally.done)
        self._names = Counter(run.directory.name for run in runs)
        self._choose()

    def find(self, search: str) -> None:
        """Show only runs whose name, environments, agent or model contain these letters in this order."""
        self.search = search.strip()
        self._choose()

    def narrow(self, where: RolloutFilter) -> None:
        """Show only runs for which a filter over `RUN_FIELDS` holds."""
        self.where = where
        self._choose()

    def sort(self, order: str, *, descending: bool) -> None:
        """Sort by a field."""
        self.order, self.descending = order, descending
        self._choose()

    @property
    def orders(self) -> list[str]:
        """The orders by the shown columns, after that by time of start."""
        return ["", *(SORTS[column.name] for column in self.shown_columns if column.name in SORTS)]

    @property
    def unread(self) -> list[SeenRun]:
        """The runs whose figures are needed for the filter or the order, and not read yet."""
        if not FIGURES & {self.order, *self.where.columns}:
            return []
        return [run for run in self._all if not self.tallies.is_read(run)]

    def read_again(self) -> None:
        """Show the runs by their figures, of which there are new ones."""
        if FIGURES & {self.order, *self.where.columns}:
            self._choose()
        else:
            self.update_rows()

    def _chosen(self) -> list[SeenRun]:
        """The runs that are wanted, in their order; those without a value come last."""
        found = [run for run in self._all if self._is_wanted(run)]
        if not self.order and not self.where.columns:
            return found
        rows = [self._facts(run) for run in found]
        if self.where.columns:
            holds = self.where.bind(RunColumns(rows))
            kept = [place for place in range(len(found)) if holds(place)]
            found, rows = [found[place] for place in kept], [rows[place] for place in kept]
        if not self.order:
            return found
        known = [place for place, row in enumerate(rows) if row[self.order] is not None]
        absent = [place for place, row in enumerate(rows) if row[self.order] is None]
        known.sort(key=partial(_value, rows, self.order), reverse=self.descending)
        return [found[place] for place in (*known, *absent)]

    def _facts(self, run: SeenRun) -> dict[str, Value]:
        tally = self.tallies.of(run)
        return facts_of(run, self.line(run), tally, self.rate(run, tally), self._clock())

    def _choose(self) -> None:
        current = self.current
        self.shown = self._chosen()
        self._plays = any(run.is_live for run in self.shown)
        if current is not None:
            places = (place for place, run in enumerate(self.shown) if run.directory == current.directory)
            self.cursor = next(places, self.cursor)
        lines = [line for run in self.shown[:_LOOKED_AT] if (line := self.line(run)).problem is None]
        self._wanted = {
            "name": widest(self._told_name(run) for run in self.shown[:_LOOKED_AT]),
            "environments": widest(line.environments for line in lines),
            "agent": widest(line.agent for line in lines),
            "model": widest(line.model for line in lines),
        }
        self.update_rows()

    def update_rows(self) -> None:
        """Redraw after runs or their figures changed."""
        self._is_lossy = any(unscored_of(self.tallies.of(run)) for run in self.shown[:_LOOKED_AT])
        super().update_rows()

    def _is_wanted(self, run: SeenRun) -> bool:
        if not self.search:
            return True
        line = self.line(run)
        words = (line.name, line.environments, line.agent, line.model, line.status)
        return any(closeness(self.search, word) is not None for word in words)

    def line(self, run: SeenRun) -> Line:
        """The texts for a run."""
        kept = self._lines.get(run.directory)
        if kept is None or (kept[0] is not run and kept[0] != run):
            kept = self._lines[run.directory] = (run, line_of(run))
        return kept[1]

    def _told_name(self, run: SeenRun) -> str:
        """The name of a run; of several runs of one name each is told by its folder."""
        name = self.line(run).name
        is_one = self._names[run.directory.name] == 1
        return name if is_one else f"{named(run.directory.parent.name)}/{name}"

    def rate(self, run: SeenRun, tally: Tally | None) -> float | None:
        """Rollouts per second as observed; before there are enough observations, since the start of a run that was
        not resumed.
        """
        pace = self._paces.get(run.directory)
        if pace is None or tally is None or tally.done is None:
            return None
        rate = pace.rate
        if rate is None and run.view is not None and isinstance(run.info, RunInfo) and not run.info.resumptions:
            rate = tally.done / run.view.seconds if run.view.seconds and tally.done else None
        return rate

    def toggle_mark(self) -> None:
        """Mark or unmark the selected run, and move to the next."""
        run = self.current
        if run is None:
            return
        if run.directory in self.marked:
            self.marked.remove(run.directory)
        else:
            self.marked.append(run.directory)
        self.cursor += 1
        self.refresh()

    def mark(self, row: int) -> str:
        """The sign of a marked run."""
        return MARKED if self.shown[row].directory in self.marked else " "

    def columns(self, width: int) -> Sequence[Column]:
        """The columns for a width; agent, bar, pace and full date only if there is room."""
        name, model = Column("name", "run", 14), Column("model", "model", 8)
        numbers = [
            Column("reward", "reward", 7 if width >= MIDDLE else 6, is_right=True),
            Column("passes", "pass", 6, is_right=True),
        ]
        done = Column("done", "done", 11, is_right=True)
        status, environments = Column("status", "status", 11), Column("environments", "environments", 12)
        # Where none plays, its columns are not needed.
        plays = self._plays
        lost = [Column("unscored", "unscored", 9 if width >= MIDDLE else 8, is_right=True)][: int(self._is_lossy)]
        if width >= WIDE:
            agent, made = Column("agent", "agent", 9), Column("when", "created", 32)
            bars, paces = [Column("bar", "", 14)][: int(plays)], [Column("pace", "rate", 19)][: int(plays)]
            every = [name, status, environments, agent, model, *bars, done, *lost, *paces, *numbers, made]
            return self._arrowed(shared_out(width, every, self._wanted))
        made = Column("age", "age", 6, is_right=True)
        if width >= MIDDLE:
            bars, paces = [Column("bar", "", 6)][: int(plays)], [Column("pace", "rate", 18)][: int(plays)]
            every = [name, status, environments, model, *bars, done, *lost, *paces, *numbers, made]
            return self._arrowed(shared_out(width, every, self._wanted))
        numbers = [*numbers, made]
        every = [name, status, model, *[Column("bar", "", 4)][: int(plays)], done, *lost, *numbers]
        return self._arrowed(shared_out(width, every, self._wanted))

    def _arrowed(self, columns: Sequence[Column]) -> list[Column]:
        return [
            arrowed(column, descending=self.descending)
            if self.order and SORTS.get(column.name) == self.order
            else column
            for column in columns
        ]

    def cells(self, row: int, columns: Sequence[Column]) -> Sequence[Cell]:
        """The cells for a run; for one that cannot be read, the reason."""
        run = self.shown[row]
        line = self.line(run)
        if line.problem is not None:
            first = line.problem.partition("\n")[0]
            style = STYLES["unreadable"]
            return [Cell(line.name), Cell(line.status, style), Cell(first, style, spans=True)]
        tally = self.tallies.of(run)
        return [self._cell(column, run, line, tally) for column in columns]

    def _cell(self, column: Column, run: SeenRun, line: Line, tally: Tally | None) -> Cell:
        match column.name:
            case "name":
                return Cell(self._told_name(run), "bold" if line.is_live else "")
            case "status":
                style = STYLES.get(line.status, "")
                return Cell(line.status, "yellow" if line.status == "finished" and unscored_of(tally) else style)
            case "unscored":
                lost = unscored_of(tally)
                return Cell(f"{lost:,}", "yellow") if lost else EMPTY
            case "environments":
                return Cell(line.environments)
            case "agent":
                return Cell(line.agent)
            case "model":
                return Cell(line.model)
            case "bar":
                if tally is None or not line.is_live:
                    return EMPTY
                return Cell(bar(tally.done, line.planned, column.width), "cyan")
            case "done":
                return Cell(done_of(line, tally))
            case "pace":
                return Cell(pace_of(line, tally, self.rate(run, tally)))
            case "reward":
                return Cell(reward_of(tally))
            case "passes":
                return Cell(passes_of(tally))
            case "age":
                return Cell(age(line.created_at, self._clock()))
            case _:
                return Cell(when(line.created_at, self._clock()))


def _value(rows: Sequence[Mapping[str, Any]], name: str, place: int) -> Any:
    """A field's value, of whatever type it is."""
    value = rows[place][name]
    return value.casefold() if isinstance(value, str) else value
