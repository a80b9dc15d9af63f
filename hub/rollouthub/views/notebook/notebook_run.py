"""`rollouthub.open_run`: a run, finished or live, as tables."""

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
"""As `hub show --failed`: what nobody scored, and what did not pass."""


def open_run(path: str | PathLike[str]) -> "Run":
    """Open a run to look into it: its directory, whether it is played right now or ended long ago. Nothing is written.

    Raises:
        RunDirectoryError: there is no run there, or none that this version can read.
    """
    return Run(Path(path))


class Run:
    """A run as it was when it was opened, or last refreshed."""

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
        """Give back what reading took; done anyway when nothing refers to the run any more."""
        self._closing()

    def refresh(self) -> Self:
        """Take in what has been committed since, at the cost of what is new.

        Raises:
            RunDirectoryError: the run is gone, or damaged.
            StoreError: it could not be read just now.
        """
        self._feed.refresh()
        return self

    @property
    def directory(self) -> Path:
        """Where it is kept."""
        return self._feed.directory

    @property
    def mean_reward(self) -> float | None:
        """Over scored rollouts; None where there is none. `summary` has intervals, pass@k and the rest."""
        return self._feed.counts.mean_reward

    @property
    def pass_rate(self) -> float | None:
        """Of rollouts whose verifier said whether they passed; None where none did."""
        return self._feed.counts.pass_rate

    @property
    def failed(self) -> Frame:
        """The rollouts that did not pass or that nobody could score, a row each, as `rollouts` has them.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        return self.rollouts(FAILED)

    @property
    def info(self) -> RunInfo:
        """Facts: its status, its plan, what it was made with."""
        return self._feed.info

    @property
    def summary(self) -> RunSummary:
        """Everything the run comes to now, as `hub show` has it; `as_json()` gives plain values."""
        return summarise(self._feed.reader)

    def rollouts(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """A row a rollout, in the order of their commits.

        `where` is a filter, as `outcome == "scored" and reward < 0.5`; `columns` may also name those of the Parquet
        table (`messages`, `answer`, `feedback` …), for which records are read in full. `effective=False` adds attempts
        that a later one replaced.

        Raises:
            ConfigError: pyarrow is not installed.
            FilterError: `where` is no filter.
            UnknownNameError: a column is none.
        """
        arrow = load_arrow()
        full = [name for name in table_columns(arrow, "rollouts") if name not in SUMMARY_COLUMNS]
        names = chosen(columns, [*SUMMARY_COLUMNS, *full]) if columns is not None else list(SUMMARY_COLUMNS)
        places = self._places(where, effective)
        made = summary_table(arrow, self._feed.columns, places, names)
        wanted = [name for name in names if name in full]
        if wanted:
            records = record_table(arrow, "rollouts", self._feed.records(places), wanted)
            for name in wanted:
                made = made.append_column(records.schema.field(name), records[name])
        return Frame(made.select(names))

    def turns(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """A row a turn, with its messages and token ids; `where` picks rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as of `rollouts`.
        """
        return self._table("turns", where, columns, effective)

    def tool_calls(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """A row a tool call: name, arguments as JSON, result as text, seconds; `where` picks rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as of `rollouts`.
        """
        return self._table("tool_calls", where, columns, effective)

    def segments(self, where: str = "", *, columns: Sequence[str] | None = None, effective: bool = True) -> Frame:
        """A row a training segment: arrays of one length; `where` picks rollouts.

        Raises:
            ConfigError, FilterError, UnknownNameError: as of `rollouts`.
        """
        return self._table("segments", where, columns, effective)

    def rollout(self, rollout_id: str, attempt: int | None = None) -> RolloutPage:
        """One record in full, by its id or the beginning of it; the attempt that counts unless one is named.

        Raises:
            UnknownNameError: there is none.
            UsageError: several begin so.
        """
        return shown(self._feed.reader.rollout(rollout_id, attempt))

    def _table(self, table: Table, where: str, columns: Sequence[str] | None, effective: bool) -> Frame:
        arrow = load_arrow()
        names = chosen(columns, table_columns(arrow, table))
        places = self._places(where, effective)
        return Frame(record_table(arrow, table, self._feed.records(places), names))

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
             html.figure(line.pass_rate), html.figure(line.spread)) for line in feed.environments.all()
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
            html.table(("environment", "rollouts", "scored", "mean reward", "pass rate", "spread"), lines),
            html.table(("stage", "p50", "p95", "p99"), stages),
        )
