"""`rollouthub.open_run`: a finished or live run as tables."""

import weakref
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from rollouthub.engine.run_summary import RunSummary, summarise
from rollouthub.export.record_columns import Table
from rollouthub.live.follow import RunFeed
from rollouthub.store import RunInfo
from rollouthub.store.sql_schema import SUMMARY_COLUMNS
from rollouthub.views.notebook import notebook_html as html
from rollouthub.views.notebook.arrow import chosen, load_arrow, record_table, summary_table, table_columns
from rollouthub.views.notebook.frame import Frame
from rollouthub.views.notebook.record_page import RolloutPage, shown

FAILED = "reward == null or passed == false"
"""The filter of `hub show --failed`: rollouts without a score, and rollouts that did not pass."""


def open_run(path: str | PathLike[str]) -> "Run":
    """Open a finished or live run by its directory, for reading only.

    Raises:
        RunDirectoryError: the directory holds no run, or none that this version can read.
    """
    return Run(Path(path))


class Run:
    """A run as it was when it was opened or last refreshed."""

    def __init__(self, directory: Path) -> None:
        self._feed = RunFeed(directory)
        self._closing = weakref.finalize(self, self._feed.close)
        try:
            self._feed.refresh()
        except BaseException:
            self._closing()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; this also happens when the object is garbage collected."""
        self._closing()

    def refresh(self) -> Self:
        """Read what was committed since the last refresh; the cost depends only on the new rollouts.

        Raises:
            RunDirectoryError: the run is gone or damaged.
            StoreError: the run cannot be read just now.
        """
        self._feed.refresh()
        return self

    @property
    def directory(self) -> Path:
        """The run's directory."""
        return self._feed.directory

    @property
    def mean_reward(self) -> float | None:
        """Mean over scored rollouts; None if there are none. `summary` has intervals, pass@k and more."""
        return self._feed.counts.mean_reward

    @property
    def pass_rate(self) -> float | None:
        """Share of rollouts that passed among those with a verdict; None if there are none."""
        return self._feed.counts.pass_rate

    @property
    def failed(self) -> Frame:
        """The rollouts that did not pass or have no score, one row each, with the columns of `rollouts`.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        return self.rollouts(FAILED)

    @property
    def info(self) -> RunInfo:
        """The run's status, its number of planned rollouts, and its resolved configuration."""
        return self._feed.info

    @property
    def summary(self) -> RunSummary:
        """All figures of the run at this moment, as `hub show` prints them; `as_json()` gives plain values."""
        return summarise(self._feed.reader)

    def rollouts(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """One row per rollout, in the order they were committed.

        `where` is a filter such as `outcome == "scored" and reward < 0.5`; `columns` may also name those of the Parquet
        table (`messages`, `answer`, `feedback` …), for which records are read in full. `effective=False` adds attempts
        that a later one replaced.

        Raises:
            ConfigError: pyarrow is not installed.
            FilterError: `where` is not a valid filter.
            UnknownNameError: a column is unknown.
        """
        arrow = load_arrow()
        full = [name for name in table_columns(arrow, "rollouts") if name not in SUMMARY_COLUMNS]
        names = chosen(columns, [*SUMMARY_COLUMNS, *full]) if columns is not None else list(SUMMARY_COLUMNS)
        places = self._places(where, effective)
        made = summary_table(arrow, self._feed.columns, places, names)
        wanted = [name for name in names if name in full]
        if wanted:
            records = record_table(arrow, "rollouts", self._feed.records(places), wanted, self._feed.notes)
            for name in wanted:
                made = made.append_column(records.schema.field(name), records[name])
        return Frame(made.select(names))

    def turns(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """One row per turn, with its messages and token ids; `where` selects rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as for `rollouts`.
        """
        return self._table("turns", where, columns, effective)

    def tool_calls(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """One row per tool call: name, arguments as JSON, result as text, seconds; `where` selects rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as for `rollouts`.
        """
        return self._table("tool_calls", where, columns, effective)

    def segments(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """One row per training segment, whose arrays have equal lengths; `where` selects rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as for `rollouts`.
        """
        return self._table("segments", where, columns, effective)

    def rollout(self, rollout_id: str, attempt: int | None = None) -> RolloutPage:
        """One full record, by its id or the beginning of its id; its effective attempt unless `attempt` is given.

        Raises:
            UnknownNameError: no rollout matches.
            UsageError: several rollouts match.
        """
        return shown(self._feed.reader.rollout(rollout_id, attempt), self.directory)

    def _table(self, table: Table, where: str, columns: Sequence[str] | None, effective: bool) -> Frame:
        arrow = load_arrow()
        names = chosen(columns, table_columns(arrow, table))
        places = self._places(where, effective)
        return Frame(record_table(arrow, table, self._feed.records(places), names, self._feed.notes))

    def _places(self, where: str, effective: bool) -> list[int]:
        found = self._feed.rollouts("seq", where=where, effective=effective)
        return sorted(found.page(0, len(found)))

    def __repr__(self) -> str:
        counts = self._feed.counts
        return f"<Run {str(self._feed.directory)!r}: {self.info.status}, {counts.effective} rollouts>"

    def _repr_html_(self) -> str:
        feed = self._feed
        counts, progress = feed.counts, feed.progress()
        planned = "" if progress.planned is None else f" of {progress.planned}"
        outcomes = ", ".join(f"{outcome.value} {count}" for outcome, count in counts.outcomes.items())
        lines = [
            (line.name, line.counts.planned, line.counts.scored, html.figure(line.mean_reward),
             html.figure(line.pass_rate), html.figure(line.deviation)) for line in feed.environments.all()
        ]  # fmt: skip
        stages = [
            (stage, *(html.figure(seconds) for seconds in values))
            for stage, values in feed.stages.quantiles().items()
            if any(values)
        ]
        return html.page(
            html.heading(str(feed.directory)),
            html.facts(
                [
                    ("status", self.info.status),
                    ("rollouts", f"{progress.done}{planned}, {progress.in_flight} in flight"),
                    ("outcomes", outcomes or "–"),
                    ("mean reward", f"{html.figure(counts.mean_reward)} over {counts.scored} scored"),
                    ("pass rate", f"{html.figure(counts.pass_rate)} over {counts.judged} with a verdict"),
                    ("tokens", f"{counts.prompt_tokens} prompt, {counts.output_tokens} output"),
                    ("cost", "–" if counts.cost is None else f"${counts.cost:.4f}"),
                ]
            ),
            html.table(("environment", "rollouts", "scored", "mean reward", "pass rate", "std of rewards"), lines),
            html.table(("stage", "p50", "p95", "p99"), stages),
        )
