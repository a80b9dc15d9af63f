"""The figures of `hub bench sandbox`, as JSON and as a table."""

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass
class SandboxReport:
    """The measured figures; None where the provider lacks the thing measured, or there is no baseline."""

    provider: str
    engine: str | None = None
    walls: str = ""
    runner: str = ""
    execs: int = 0
    exec_p50_ms: float = 0.0
    exec_p99_ms: float = 0.0
    docker_exec_p50_ms: float | None = None
    """Median of the engine's own exec of the same program through its API, in milliseconds."""
    hub_growth_kb: int | None = None
    """Growth of this process's resident memory in KB while the execs ran, after a warm-up of a tenth as many."""
    supervisor_growth_kb: int | None = None
    open_p50_ms: float | None = None
    """Median time to open a sandbox that was not started ahead, in milliseconds."""
    docker_run_p50_ms: float | None = None
    """Median time to create and start a container with the same isolation through the engine's API, one at a time."""
    acquires: int = 0
    demand_per_second: float = 0.0
    acquire_p50_ms: float = 0.0
    acquire_p99_ms: float = 0.0
    acquired_warm: int | None = None
    """How many of the acquired sandboxes came ready from the warm pool."""
    parallel: int = 0
    """How many containers the pool and the bare engine each start at a time."""
    refill_per_second: float = 0.0
    docker_run_per_second: float | None = None
    refill_ratio: float | None = None
    """The pool's rate divided by the bare engine's (the two fields above): median over the pairs of rounds."""
    churn_per_second: float = 0.0
    """Sandboxes per second opened, used for one command and closed without a pause."""
    episodes: int = 0
    """Episodes run at once; each acquires a sandbox, runs ten commands and releases it."""
    episodes_seconds: float = 0.0
    episode_errors: int = 0
    load_before: float = 0.0
    load_after: float = 0.0
    """Load average of the machine over one minute; other load makes every figure worse."""

    def as_json(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return asdict(self)


def report_table(report: SandboxReport) -> Table:
    """The report as a table: a row for each figure, the bare engine's figure beside ours."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"{report.provider}: {report.engine or report.walls}, {report.runner}")
    table.add_column("ours", justify="right")
    table.add_column("the bare engine", justify="right", style="dim")
    ms, rate = _milliseconds, _rate
    table.add_row(f"exec, median of {report.execs:,}", ms(report.exec_p50_ms), ms(report.docker_exec_p50_ms))
    table.add_row("exec, 99th percentile", ms(report.exec_p99_ms), "")
    table.add_row("memory of the hub grew by", _kilobytes(report.hub_growth_kb), "")
    table.add_row("memory of the supervisor grew by", _kilobytes(report.supervisor_growth_kb), "")
    table.add_row("a sandbox made while one waits, median", ms(report.open_p50_ms), ms(report.docker_run_p50_ms))
    demand = f"{report.demand_per_second:.1f} wanted a second"
    table.add_row(f"a ready sandbox, {demand}, median of {report.acquires}", ms(report.acquire_p50_ms), "")
    table.add_row("a ready sandbox, 99th percentile", ms(report.acquire_p99_ms), "")
    if report.acquired_warm is not None:
        table.add_row("handed out warm", f"{report.acquired_warm} of {report.acquires}", "")
    table.add_row(
        f"started, {report.parallel} at once", rate(report.refill_per_second), rate(report.docker_run_per_second)
    )
    if report.refill_ratio is not None:
        table.add_row("of the bare engine's rate", f"{report.refill_ratio:.2f}", "")
    table.add_row("made, used and removed", rate(report.churn_per_second), "")
    table.add_row(
        f"{report.episodes} episodes at once, 10 execs each",
        f"{report.episodes_seconds:.1f} s, {report.episode_errors} errors",
        "",
    )
    table.add_row("load of the machine", f"{report.load_before:.1f} → {report.load_after:.1f}", "")
    return table


def _milliseconds(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f} ms" if value < 100 else f"{value:,.0f} ms"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}/s"


def _kilobytes(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,} KB"
