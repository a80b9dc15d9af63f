"""`rollouthub.open_run`: a finished or live run as tables."""

import weakref
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

from rollouthub.engine.run_summary import RunSummary, summarise
from rollouthub.live.follow import RunFeed
from rollouthub.live.follow.run_figures import figures_of
from rollouthub.statistics.amounts import NONE, dollars, number, seconds, share
from rollouthub.store import RunInfo
from rollouthub.views.notebook import notebook_html as html
from rollouthub.views.notebook.record_page import RolloutPage, shown
from rollouthub.views.notebook.selection import Selection
from rollouthub.views.terminal.run_status import standing


def open_run(path: str | PathLike[str]) -> "Run":
    """Open a finished or live run by its directory, for reading only.

    Raises:
        RunDirectoryError: the directory holds no run, or none that this version can read.
    """
    return Run(Path(path))


class Run(Selection):
    """A run as it was when it was opened or last refreshed."""

    def __init__(self, directory: Path) -> None:
        super().__init__(RunFeed(directory))
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
    def info(self) -> RunInfo:
        """The run's status, its number of planned rollouts, and its resolved configuration."""
        return self._feed.info

    @property
    def summary(self) -> RunSummary:
        """All figures of the run at this moment, as `hub show` prints them; `as_json()` gives plain values."""
        return summarise(self._feed.reader)

    def rollout(self, rollout_id: str, attempt: int | None = None) -> RolloutPage:
        """One full record, by its id or the beginning of its id; its effective attempt unless `attempt` is given. Its
        `notes` are those of people, as JSON, as of the last refresh; None without any.

        Raises:
            UnknownNameError: no rollout matches.
            UsageError: several rollouts match.
        """
        found = self._feed.reader.rollout(rollout_id, attempt)
        return shown(found, self.directory, self._feed.notes.of(found.rollout_id, found.attempt))

    def __repr__(self) -> str:
        counts = self._feed.counts
        return f"<Run {str(self._feed.directory)!r}: {self.info.status}, {counts.effective} rollouts>"

    def _repr_html_(self) -> str:
        feed = self._feed
        counts, progress = feed.counts, feed.progress()
        figures = figures_of(counts, self.info.planned)
        planned = "" if progress.planned is None else f" of {progress.planned:,}"
        outcomes = ", ".join(f"{outcome.value} {count:,}" for outcome, count in counts.outcomes.items())
        stages = [(stage, *map(seconds, values)) for stage, values in feed.stages.exact().items() if any(values)]
        return html.page(
            html.heading(str(feed.directory)),
            html.facts(
                [
                    ("status", standing(self.info.status).word),
                    ("rollouts", f"{progress.done:,}{planned}, {progress.in_flight:,} in flight"),
                    ("outcomes", outcomes or NONE),
                    ("coverage", share(figures.coverage)),
                    *self._figures(),
                    *([("strict mean", number(figures.strict))] if figures.strict != figures.mean_reward else []),
                    ("tokens", f"{counts.prompt_tokens:,} prompt, {counts.output_tokens:,} output"),
                    ("cost", dollars(counts.cost)),
                ]
            ),
            self._environments({line.name: line.deviation for line in feed.environments.all()}),
            html.table(("stage", "p50", "p95", "p99"), stages),
        )
