"""The progress of `hub score` (a bar on a terminal, plain lines elsewhere) and its final table."""

import time
from types import TracebackType
from typing import Self

import anyio
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from rollouthub.analysis.scoring.batch_tally import BatchTally
from rollouthub.analysis.scoring.completion_line import BAD_ROW
from rollouthub.cli.run.final_tables import UNEVEN, is_uneven_group
from rollouthub.rollout import Outcome
from rollouthub.statistics import RunningMeans, summarise_groups
from rollouthub.statistics.amounts import estimate, number, of_all, share

BAR_SECONDS, LINE_SECONDS = 0.2, 10.0


class ScoreView:
    """Draws the progress of a batch on a timer."""

    def __init__(self, console: Console, name: str, means: RunningMeans, *, is_quiet: bool) -> None:
        self._console, self._means, self._is_quiet = console, means, is_quiet
        self._is_bar = console.is_terminal and not is_quiet
        self._started, self._before = time.monotonic(), 0
        self._total: int | None = None
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(),
            console=console,
            auto_refresh=False,
        )
        self._task = self._bar.add_task(name, total=None, facts="")

    def __enter__(self) -> Self:
        if self._is_bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_bar:
            self._draw()
            self._bar.stop()

    def begin(self, total: int | None, done: int) -> None:
        """Start the clock; `done` lines were scored before, of `total` (None if unknown)."""
        self._started, self._before, self._total = time.monotonic(), done, total
        if done:
            self.note(f"resuming after {done:,} lines that are done")

    @property
    def rate(self) -> float:
        """Lines scored per second since `begin`."""
        return (self._means.finished - self._before) / max(1e-9, time.monotonic() - self._started)

    async def refresh(self) -> None:
        """Redraw on a timer until cancelled."""
        while not self._is_quiet:
            await anyio.sleep(BAR_SECONDS if self._is_bar else LINE_SECONDS)
            if self._is_bar:
                self._draw()
            else:
                total = "" if self._total is None else f"/{self._total:,}"
                self._console.print(f"{self._means.finished:,}{total} · {self._facts()}", highlight=False)

    def note(self, text: str) -> None:
        """Print a line once; nothing under `--quiet`."""
        if not self._is_quiet:
            self._console.print(Text(text, style="dim"))

    def _draw(self) -> None:
        self._bar.update(
            self._task, total=self._total, completed=self._means.finished, facts=self._facts(), refresh=True
        )

    def _facts(self) -> str:
        mean = self._means.mean_reward
        return f"{self.rate:,.0f}/s" + ("" if mean is None else f" · reward {number(mean)}")


def print_tally(console: Console, tally: BatchTally, output: str, seconds: float, cpu_seconds: float) -> None:
    """Print the results of a batch."""
    overall = summarise_groups(tally.groups()).overall
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("environment")
    for title in ("tasks", "scored", "mean reward", "pass rate"):
        table.add_column(title, justify="right", no_wrap=True)
    means = tally.means
    table.add_row(
        tally.environment,
        f"{overall.tasks:,}" if overall.tasks else "–",
        f"{means.scored:,}/{tally.lines:,}",
        number(means.mean_reward),
        share(means.pass_rate),
    )
    console.print(table)
    if overall.scored and overall.at_k:
        console.print()
        at_k = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("k", "pass@k (95 %)", "avg@k (95 %)", "tasks"):
            at_k.add_column(title, justify="right", no_wrap=True)
        for at in overall.at_k:
            passing, average = at.pass_at_k, at.avg_at_k
            at_k.add_row(
                str(at.k),
                estimate(passing and passing.value, passing, share),
                estimate(average.value, average),
                of_all((passing or average).tasks, overall.tasks),
            )
        console.print(at_k)
        if is_uneven_group(overall):
            console.print(Text(UNEVEN, style="dim"))
    for line in unscored_lines(tally):
        console.print(Text(line, style="yellow"))
    fresh = tally.lines - tally.resumed
    rate, each = fresh / max(seconds, 1e-9), cpu_seconds / fresh * 1e3 if fresh else 0.0
    console.print(f"\n{seconds:.1f} s, {rate:,.0f} lines/s, {cpu_seconds:.1f} s CPU ({each:.3f} ms a line)")
    console.print(Text(output, style="bold"))


def unscored_lines(tally: BatchTally) -> list[str]:
    """One line of text for each kind of unscored row, with its count."""
    counts = {outcome.value: tally.means.outcomes[outcome] for outcome in Outcome if outcome is not Outcome.SCORED}
    counts[BAD_ROW] = tally.bad_rows
    return [f"{name}: {count:,}, written without a score" for name, count in counts.items() if count]
