"""`hub bench export`: speed and memory of exporting a run to data sets and trainers' records.

A small run and one ten times as large are generated without playing, and kept for later benchmarks. Each measurement
has a fresh process. Memory that depends on the run's size shows as growth of peak memory from the small run to the
large one.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rollouthub.bench.cell import run_cell
from rollouthub.bench.export_cell import FILES, conversions
from rollouthub.bench.export_run import GROUP, TURNS, synthetic_run
from rollouthub.store import open_run

ROLLOUTS, QUICK_ROLLOUTS = 25_000, 2_500
SMALLER = 10
"""How many times larger the large run is than the small one."""
GROWTH_BAR_MB = 50.0
_CELL_SECONDS = 1800


@dataclass(frozen=True)
class ExportRow:
    """The measurement of one export format, or of one trainer's records."""

    name: str
    turns: int
    rows: int
    turns_per_second: float
    cpu_us_per_turn: float
    mb_per_second: float | None
    """Megabytes written per second; None if no file is written."""
    written_mb: float | None
    peak_mb: float
    growth_mb: float
    """Peak memory with the large run minus that with the small run, in megabytes."""


@dataclass(frozen=True)
class ExportReport:
    """All measurements of `hub bench export`."""

    turns: int
    content_mb: float
    """Megabytes of the large run's records."""
    rows: list[ExportRow]
    absent: dict[str, str]
    """Trainer → why its records could not be made here."""

    def as_json(self) -> dict[str, Any]:
        """The report as `hub bench export --json` prints it."""
        within = {row.name: row.growth_mb <= GROWTH_BAR_MB for row in self.rows}
        return {**asdict(self), "within_bars": within}


def measure_export(rollouts: int, say: Callable[[str], None], folder: Path | None = None) -> ExportReport:
    """Export a run of so many rollouts to each format, and convert it to each trainer's records.

    Raises:
        HubError: a measuring process failed.
    """
    small = max(GROUP, rollouts // SMALLER)
    say(f"making runs of {small * TURNS:,} and {rollouts * TURNS:,} turns …")
    runs = synthetic_run(small, folder), synthetic_run(rollouts, folder)
    with open_run(runs[1]) as reader:
        content = reader.content_bytes()
    rows: list[ExportRow] = []
    absent: dict[str, str] = {}
    for name in (*FILES, *conversions()):
        say(f"{name} …")
        found = [run_cell("export_cell", run, name, what=f"the cell {name!r}", seconds=_CELL_SECONDS) for run in runs]
        less, more = found
        if "absent" in more:
            absent[name] = more["absent"]
            continue
        seconds = max(more["seconds"], 1e-3)
        written = more["written_mb"] or None
        rows.append(
            ExportRow(
                name=name,
                turns=more["turns"],
                rows=more["rows"],
                turns_per_second=round(more["turns"] / seconds, 1),
                cpu_us_per_turn=round(more["cpu_seconds"] / more["turns"] * 1e6, 1),
                mb_per_second=None if written is None else round(written / seconds, 2),
                written_mb=written,
                peak_mb=more["peak_mb"],
                growth_mb=round(more["peak_mb"] - less["peak_mb"], 1),
            )
        )
    return ExportReport(rollouts * TURNS, round(content / 1e6, 1), rows, absent)
