"""`hub bench tui`: frame and key times, memory, opening times, and the cost to the watched run, each with its limit."""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from rollouthub.bench.real_runs import world
from rollouthub.errors import UsageError
from rollouthub_tui.bench.paint_time import Painting, measure_live, p95
from rollouthub_tui.bench.startup_time import Opening, measure_opening
from rollouthub_tui.bench.watch_cost import CostPair, measure_attached, percent_of

BARS = {
    "frame_cpu_p95_ms": 20.0,
    "key_p95_ms": 100.0,
    "rss_mb": 150.0,
    "open_100k_seconds": 1.0,
    "transcript_2mb_seconds": 1.0,
    "turns_5000_seconds": 1.0,
    "attached_percent": 5.0,
}
"""The upper limit of each figure."""
_WORDS = {
    "frame_cpu_p95_ms": "CPU of a frame, p95 (ms)",
    "key_p95_ms": "from a key to what it paints, p95 (ms)",
    "rss_mb": "memory at its highest (MB)",
    "open_100k_seconds": "a large ended run, until its figures show (s)",
    "transcript_2mb_seconds": "a transcript of 2 MB, until it shows (s)",
    "turns_5000_seconds": "a rollout of 5,000 turns, until it shows (s)",
    "attached_percent": "what being watched adds to a run's CPU (%)",
}


@dataclass(frozen=True)
class TuiReport:
    """All measurements of one benchmark."""

    live: Painting
    opening: Opening
    pairs: list[CostPair]
    is_quick: bool

    @property
    def figures(self) -> dict[str, float]:
        """The figures that have a limit."""
        memory = max(self.live.memory_bytes, 0 if self.is_quick else self.opening.memory_bytes)
        return {
            "frame_cpu_p95_ms": p95(self.live.all_frames),
            "key_p95_ms": p95(self.live.all_keys),
            "rss_mb": memory / 1e6,
            "open_100k_seconds": self.opening.figures,
            "transcript_2mb_seconds": self.opening.wordy,
            "turns_5000_seconds": self.opening.turns,
            "attached_percent": percent_of(self.pairs),
        }

    def as_json(self) -> dict[str, Any]:
        """The report as `hub bench tui --json` prints it."""
        return {
            **self.figures,
            "bars": BARS,
            "within": {name: value <= BARS[name] for name, value in self.figures.items()},
            "quick": self.is_quick,
            "frames": {screen: _told(values) for screen, values in self.live.frames.items()},
            "keys": {key: _told(values) for key, values in self.live.keys.items()},
            "live": {
                "rollouts": self.live.done,
                "rollouts_per_second": self.live.done / self.live.seconds,
                "cpu_share": self.live.cpu_share,
                "memory_bytes": self.live.memory_bytes,
            },
            "opening": asdict(self.opening),
            "pairs": [asdict(pair) for pair in self.pairs],
        }


def bench(provider: str | None, quick: bool, as_json: bool) -> None:
    """Measure `hub watch` in terminals of 200×60 cells; with `quick`, with smaller amounts.

    Raises:
        UsageError: this is not Linux, where CPU times of other processes can be read.
    """
    import sys

    from rollouthub.cli.console import remarks, results

    if sys.platform != "linux":
        raise UsageError("`hub bench tui` reads the CPU clocks of other processes, which only Linux has")
    console = remarks()

    def say(text: str) -> None:
        console.print(text, style="dim")

    with tempfile.TemporaryDirectory(prefix="rollouthub-bench-") as name:
        scratch = Path(name)
        environ = world(scratch)
        live = measure_live(scratch, environ, 2_000 if quick else 10_000, say)
        opening = measure_opening(scratch, environ, 2_000 if quick else 100_000, say, live)
        pairs = measure_attached(scratch, environ, 1 if quick else 5, 2_000 if quick else 6_000, say)
    report = TuiReport(live, opening, pairs, quick)
    if as_json:
        typer.echo(json.dumps(report.as_json()))
        return
    results().print(_table(report))
    results().print(_details(report))


def _told(values: list[float]) -> dict[str, float]:
    return {"count": len(values), "p50": sorted(values)[len(values) // 2], "p95": p95(values), "most": max(values)}


def _table(report: TuiReport) -> Any:
    from rich.table import Table

    table = Table("hub watch at 200×60", "measured", "bar", "")
    for name, value in report.figures.items():
        table.add_row(_WORDS[name], f"{value:,.2f}", f"{BARS[name]:g}", "" if value <= BARS[name] else "over")
    return table


def _details(report: TuiReport) -> Any:
    from rich.table import Table

    table = Table("", "n", "p50", "p95", "most")
    for heading, told in (("frame", report.live.frames), ("key", report.live.keys)):
        for name, values in told.items():
            if values:
                figures = _told(values)
                most = [f"{figures[part]:.1f}" for part in ("p50", "p95", "most")]
                table.add_row(f"{heading}, ms: {name}", str(len(values)), *most)
    opening = report.opening
    for name, seconds in (("the program itself", opening.start), ("the large run, its rollouts", opening.rows)):
        table.add_row(f"opening, s: {name}", "1", f"{seconds:.2f}", "", "")
    return table
