"""Training data for `hub export`: writes the data set, and reports how many rollouts were left out and why."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from rollouthub.cli.console import remarks
from rollouthub.cli.export.matching import matching
from rollouthub.errors import ConfigError
from rollouthub.export.data_set import DataSet, ReadProgress
from rollouthub.export.data_set_files import FILE_FORMATS, NothingToWrite, write_file, write_jsonl
from rollouthub.export.file_formats import FileFormat, file_format
from rollouthub.export.filters import Filters
from rollouthub.export.recipe import Recipe
from rollouthub.store import open_run
from rollouthub.store.atomic_files import check_output

_BAR_SECONDS, _LINE_SECONDS = 0.2, 10.0


def export_data_set(
    runs: Sequence[Path],
    recipe: Mapping[str, Any],
    filters: Mapping[str, Any],
    output: Path | None,
    form: str | None,
    *,
    where: str,
    as_json: bool,
) -> int:
    """Write a data set of the rollouts that match a filter expression, and report on it; returns the exit code.

    Raises:
        UsageError: the options contradict each other or the data.
        StoreError: a run cannot be read, or the file cannot be written.
    """
    target = _target(output, form, as_json)
    wanted = Recipe(**recipe, filters=Filters(**filters))
    places = [run.resolve() for run in runs]
    if twice := [run for place, run in enumerate(runs) if run.resolve() in places[:place]]:
        raise ConfigError(f"{twice[0]} was named twice; its rollouts would count double")
    chosen = [matching(run, where, effective=not wanted.all_attempts) for run in runs]
    started = time.perf_counter()
    console = remarks()
    with ExitStack() as opened:
        readers = [opened.enter_context(open_run(run)) for run in runs]
        view = opened.enter_context(_ExportProgress(console))
        data_set = DataSet(readers, wanted, view.tick, chosen)
        view.begin(data_set.planned)
        try:
            if output is None:
                sys.stdout.flush()
                write_jsonl(data_set, sys.stdout.buffer)
            else:
                write_file(data_set, output, target)
        except NothingToWrite:
            pass
    summary = _Summary(data_set, output, target, time.perf_counter() - started)
    if as_json:
        sys.stdout.write(json.dumps(summary.as_json()) + "\n")
    else:
        summary.print(console)
    return 0 if data_set.progress.rows and not data_set.progress.broken else 1


def _target(output: Path | None, form: str | None, as_json: bool) -> FileFormat:
    """The file format to write, after checking that it fits the output."""
    if output is not None:
        check_output(output)
    found = file_format(output, FILE_FORMATS, form)
    if output is None and found == "parquet":
        raise ConfigError("Parquet goes to a file: name it with -o, for example -o sft.parquet")
    if output is None and as_json:
        raise ConfigError("the data set goes to stdout, and so would --json; name a file with -o")
    return found


@dataclass(frozen=True)
class _Summary:
    """Counts of an export: rows written, rollouts used, and rollouts left out by reason."""

    data_set: DataSet
    output: Path | None
    form: FileFormat
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The summary as `--json` prints it."""
        progress = self.data_set.progress
        is_there = self.output is not None and bool(progress.rows)
        return {
            "format": self.data_set.recipe.format,
            "file": str(self.output) if is_there else None,
            "file_format": self.form,
            "bytes": self.output.stat().st_size if self.output is not None and is_there else 0,
            "rows": progress.rows,
            "token_exact_rows": progress.exact_rows,
            "rollouts": progress.read,
            "used": progress.used,
            "groups": progress.groups,
            "left_out": dict(progress.left_out.counts.most_common()),
            "examples": progress.left_out.examples,
            "broken": [{"rollout_id": record.name, "problem": record.problem} for record in progress.broken],
            "seconds": round(self.seconds, 3),
        }

    def print(self, console: Console) -> None:
        """Print the summary in words."""
        progress, left_out = self.data_set.progress, self.data_set.progress.left_out
        if progress.rows:
            where = f" written to {self.output}" if self.output is not None else ""
            exact = f", {progress.exact_rows:,} of them token-exact"
            facts = f"{progress.rows:,} rows{where}, of {progress.used:,} of {progress.read:,} rollouts{exact}"
            console.print(Text(facts))
        else:
            console.print(Text(f"nothing to write: no row of {progress.read:,} rollouts", style="bold red"))
        for name, count in left_out.counts.most_common():
            console.print(Text.assemble(f"left out: {count:,} for {name}", (f"  {left_out.examples[name]}", "dim")))


class _ExportProgress:
    """The progress of reading records: a bar on a terminal, a line every ten seconds elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (TextColumn("[bold]reading"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Bar(*columns, console=console, auto_refresh=False, transient=True)
        self._task = self._bar.add_task("reading", total=None)
        self._wait = _BAR_SECONDS if console.is_terminal else _LINE_SECONDS
        self._next = time.monotonic() + self._wait
        self._total = 0
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_drawn:
            self._bar.stop()

    def begin(self, total: int) -> None:
        """Set the number of records that will be read."""
        self._total = total

    def tick(self, progress: ReadProgress) -> None:
        """Show the progress after a group of rollouts was read."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._wait
        if self._console.is_terminal:
            self._bar.start()
            self._is_drawn = True
            self._bar.update(self._task, completed=progress.read, total=max(self._total, progress.read), refresh=True)
        else:
            left = f", {progress.left_out.total:,} left out" if progress.left_out.total else ""
            facts = f"{progress.read:,} of {self._total:,} rollouts read, {progress.rows:,} rows{left}"
            self._console.print(Text(facts, style="dim"))
