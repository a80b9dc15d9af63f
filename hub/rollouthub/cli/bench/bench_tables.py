"""Prints the results of `hub bench` as tables."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.bench.env_server import ServingRow
from rollouthub.bench.export import ExportReport
from rollouthub.bench.gateway import GatewayReport
from rollouthub.bench.latency import LatencyReport
from rollouthub.bench.layers import LayersReport
from rollouthub.bench.overhead import OverheadReport
from rollouthub.bench.ray import RayReport
from rollouthub.bench.schedule import ScheduleRow


def print_overhead(console: Console, report: OverheadReport) -> None:
    """Print CPU per rollout in each lane, beside a bare client's floor, and the share of each part of the hub."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("lane")
    for title in ("in flight", "CPU ms per rollout", "rollouts/s", "rollouts"):
        table.add_column(title, justify="right")
    for row in report.rows:
        style = "dim" if row.lane in ("floor", "two litellm calls") else ""
        table.add_row(
            row.lane,
            str(row.concurrency),
            f"{row.cpu_ms_per_rollout:.3f}",
            f"{row.rollouts_per_second:,.0f}",
            f"{row.rollouts:,}",
            style=style,
        )
    console.print(table)
    if not report.parts:
        return
    console.print()
    where = Table(box=None, pad_edge=False, header_style="bold")
    where.add_column("CPU ms per rollout")
    for level in report.parts:
        where.add_column(f"at {level}", justify="right")
    for part in sorted({part for parts in report.parts.values() for part in parts}):
        where.add_row(part, *(f"{parts[part]:.3f}" for parts in report.parts.values()))
    console.print(where)
    if report.memory_growth_mb is not None:
        console.print(f"\nmemory grew {report.memory_growth_mb:.1f} MB from 1,000 to 20,000 rollouts", highlight=False)


def print_serving(console: Console, rows: Sequence[ServingRow]) -> None:
    """Print the CPU that the environment server's process takes for each kind of request."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("work")
    for title in ("clients", "server CPU ms each", "per second", "count"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(row.work, str(row.clients), f"{row.cpu_ms:.3f}", f"{row.per_second:,.0f}", f"{row.count:,}")
    console.print(table)


def print_gateway(console: Console, report: GatewayReport) -> None:
    """Print the gateway's CPU for each kind of call, the delay it adds to streams, and its memory for idle episodes."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("work")
    for title in ("episodes", "gateway CPU ms each", "per second", "count"):
        table.add_column(title, justify="right")
    for row in report.rows:
        table.add_row(row.work, str(row.episodes), f"{row.cpu_ms:.3f}", f"{row.per_second:,.0f}", f"{row.count:,}")
    console.print(table)
    direct, model_api = report.direct_cpu_ms_per_call, report.seam_cpu_ms_per_call
    console.print(
        f"\na model call: {direct:.3f} ms on the direct lane alone, the model API adds {model_api:.3f}", highlight=False
    )
    console.print(f"a stream's first words come {report.first_token_delay_ms:.1f} ms later", highlight=False)
    console.print(f"1,000 episodes that wait take {report.idle_episodes_mb:.1f} MB", highlight=False)


def print_ray(console: Console, report: RayReport) -> None:
    """The table of `hub bench ray`: one run in one process and on a cluster."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("CPU ms per rollout")
    for title in ("one process", f"Ray, {report.workers} workers"):
        table.add_column(title, justify="right")
    table.add_row("driver", f"{report.local_cpu_ms_per_rollout:.3f}", f"{report.driver_cpu_ms_per_rollout:.3f}")
    table.add_row("workers", "", f"{report.worker_cpu_ms_per_rollout:.3f}")
    table.add_row("rollouts/s", f"{report.local_per_second:,.0f}", f"{report.ray_per_second:,.0f}")
    table.add_row("memory grew, MB", f"{report.local_growth_mb:.1f}", f"{report.driver_growth_mb:.1f}")
    table.add_row("… of a worker", "", f"{report.worker_growth_mb:.1f}")
    console.print(table)
    console.print(
        f"\nworkers take {report.worker_cpu_ratio:.2f} × one process's CPU; {report.wall_efficiency:.0%} of "
        f"{report.workers} × its rate on {report.cores} cores"
        + ("" if report.has_room else ", too few to show more: driver, workers and the model's server share them"),
        highlight=False,
    )


def print_latency(console: Console, report: LatencyReport) -> None:
    """Print the rollout rate as a share of what the model's latency allows, and the delays of the event loop."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("measured", justify="right")
    table.add_row("rollouts/s", f"{report.rate:,.1f} of {report.possible_rate:,.1f}, {report.share:.1%}")
    for name, wall, own in (
        ("p50", report.lag_p50_ms, report.own_lag_p50_ms),
        ("p99", report.lag_p99_ms, report.own_lag_p99_ms),
        ("most", report.lag_max_ms, report.own_lag_max_ms),
    ):
        table.add_row(f"event loop late, {name}", f"{wall:.1f} ms, {own:.1f} of them its own work")
    table.add_row("CPU", f"{report.cpu_ms_per_rollout:.2f} ms a rollout")
    table.add_row("memory", f"{report.memory_mb:.0f} MB, {report.memory_kb_per_episode:.0f} KB an episode in flight")
    console.print(table)


def print_schedule(console: Console, rows: Sequence[ScheduleRow]) -> None:
    """Print CPU, memory growth and efficiency of the scheduler for each number of samples."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("samples", "CPU µs each", "memory grew, MB", "retried", "lost workers", "set aside", "efficiency"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            f"{row.items:,}",
            f"{row.microseconds_per_item:.1f}",
            f"{row.growth_mb:.1f}",
            f"{row.retried:,}",
            str(row.lost_workers),
            str(row.set_aside),
            f"{row.efficiency:.0%}",
        )
    console.print(table)


def print_layers(console: Console, report: LayersReport) -> None:
    """Print each layer measured alone, whole runs, and which layer limits each run's rate."""
    for model, layers in report.layers.items():
        table = Table(box=None, pad_edge=False, header_style="bold", title=f"alone, {model}", title_justify="left")
        table.add_column("layer")
        table.add_column("work")
        for title in ("per rollout", "per second", "CPU ms", "its server's", "p50 ms", "p95 ms"):
            table.add_column(title, justify="right")
        for layer in layers:
            walls = ["" if wall is None else f"{wall:,.2f}" for wall in (layer.p50_ms, layer.p95_ms)]
            server = f"{layer.server_cpu_ms:.3f}" if layer.server_cpu_ms else ""
            table.add_row(
                layer.layer,
                layer.work,
                f"{layer.per_rollout:g}",
                f"{layer.per_second:,.0f}" if layer.per_second >= 10 else f"{layer.per_second:.2g}",
                f"{layer.cpu_ms:.3f}",
                server,
                *walls,
            )
        console.print(table)
        console.print()
    runs = Table(box=None, pad_edge=False, header_style="bold", title="whole runs", title_justify="left")
    runs.add_column("CPU ms per rollout")
    for title in ("driver", "workers", "servers", "mock model", "rollouts/s", "p50 ms", "p95 ms", "bottleneck"):
        runs.add_column(title, justify="right")
    for run, verdict in zip(report.runs, report.verdicts, strict=True):
        played = run.played
        cpus = (played.driver_cpu_ms, played.workers_cpu_ms, played.servers_cpu_ms, played.model_cpu_ms)
        walls = (f"{played.per_second:,.1f}", f"{played.p50_ms:,.1f}", f"{played.p95_ms:,.1f}")
        runs.add_row(run.name, *(f"{cpu:.3f}" if cpu else "" for cpu in cpus), *walls, verdict.bottleneck)
    console.print(runs)
    for verdict in report.verdicts:
        console.print(Text.assemble("\n", (verdict.run, "bold"), f": {verdict.sentence}"))
    for run in report.runs:
        if run.played.unscored:
            console.print(f"\n{run.name}: {run.played.unscored} of {run.played.rollouts} rollouts were not scored")
    if report.is_busy:
        console.print(
            f"\nothers were at work here, too (load {report.load:g} on {report.cores} cores): rates and walls are "
            "theirs as well, CPU is not",
            style="dim",
            highlight=False,
        )


def print_export(console: Console, report: ExportReport) -> None:
    """Print turns per second and memory of the export to each format."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(f"{report.turns:,} turns, {report.content_mb:,.0f} MB of records")
    for title in ("rows", "turns/s", "CPU µs a turn", "MB written", "MB/s", "peak MB", "grew by MB"):
        table.add_column(title, justify="right")
    for row in report.rows:
        written = ("", "") if row.written_mb is None else (f"{row.written_mb:,.0f}", f"{row.mb_per_second:,.0f}")
        figures = (f"{row.rows:,}", f"{row.turns_per_second:,.0f}", f"{row.cpu_us_per_turn:,.0f}", *written)
        table.add_row(row.name, *figures, f"{row.peak_mb:,.0f}", f"{row.growth_mb:.1f}")
    console.print(table)
    for name, why in report.absent.items():
        console.print(f"{name} is left out: {why}", style="dim", highlight=False)
