"""Prints an estimate on the terminal."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.analysis.estimate import Projection, RunEstimate
from rollouthub.engine.run_request import RunRequest
from rollouthub.settings import duration

_OPTIONS = {
    "run_limits.max_cost": "--run-cost",
    "run_limits.max_tokens": "--run-tokens",
    "run_limits.max_seconds": "--run-seconds",
    "budget": "--budget",
}
_BOUNDS = {
    "concurrency": "at {concurrency} in flight",
    "requests_per_minute": "held back by --rpm {requests_per_minute}",
    "tokens_per_minute": "held back by --tpm {tokens_per_minute}",
    "cpu": "the hub's own work, about 1 ms a rollout",
}


def print_estimate(console: Console, estimate: RunEstimate, request: RunRequest, output: Path | None) -> None:
    """Print the projection, its share of the run's limits, and remarks on its accuracy."""
    console.print(
        f"{estimate.rollouts:,} rollouts of {estimate.tasks:,} tasks are planned. The sample: {estimate.sampled:,} of "
        f"{estimate.sampled_tasks:,} tasks, {estimate.scored:,} scored"
    )
    if estimate.scored:
        console.print()
        console.print(_amounts(estimate, request))
    if estimate.scored and estimate.limits:
        console.print()
        console.print(_limits(estimate))
    for remark in estimate.remarks:
        console.print(Text(f"• {remark}", style="yellow"))
    if output is not None:
        console.print(Text(f"The sample is kept. Play the rest with: hub run --resume -o {output}", style="dim"))


def _amounts(estimate: RunEstimate, request: RunRequest) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for title in ("a rollout", "the run", "(95 %)"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")

    def row(name: str, amount: Projection, shown: Callable[[float], str], remark: str = "") -> None:
        ends = "" if amount.low is None or amount.high is None else f"{shown(amount.low)} – {shown(amount.high)}"
        table.add_row(name, shown(amount.value / estimate.rollouts), shown(amount.value), ends, remark)

    row("prompt tokens", estimate.prompt_tokens, _count)
    if estimate.picture_tokens:
        row("  of pictures", Projection(estimate.picture_tokens, None, None), _count)
    row("output tokens", estimate.output_tokens, _count)
    for role, usage in estimate.roles.items():
        row(f"{role}: tokens", Projection(usage.prompt_tokens + usage.output_tokens, None, None), _count)
        if usage.cost is not None:
            row(f"{role}: cost", Projection(usage.cost, None, None), _dollars)
    if estimate.cost is None:
        table.add_row("cost", "–", "–", "", "")
    else:
        row("cost", estimate.cost, _dollars, "judges and users included" if estimate.roles else "")
    seconds, remark = estimate.seconds, _BOUNDS[estimate.bound].format(**request.model_dump())
    ends = "" if seconds.low is None or seconds.high is None else f"{duration(seconds.low)} – {duration(seconds.high)}"
    table.add_row("time", "", duration(seconds.value), ends, remark)
    table.add_row("disk", _bytes(estimate.disk_bytes / estimate.rollouts), _bytes(estimate.disk_bytes), "", "")
    return table


def _limits(estimate: RunEstimate) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("limit")
    table.add_column("taken", justify="right")
    table.add_column("(95 %)", justify="right")
    table.add_column("")
    for name, found in estimate.limits.items():
        share = found.share
        ends = "" if share.low is None or share.high is None else f"{share.low:.0%} – {share.high:.0%}"
        remark = f"stops the run after about {1 / share.value:.0%} of it" if share.value > 1 else ""
        if not remark and share.high is not None and share.high > 1:
            remark = "may stop the run"
        style = "red" if share.value > 1 else "yellow" if remark else ""
        table.add_row(f"{_OPTIONS[name]} {found.limit:,.6g}", Text(f"{share.value:.0%}", style=style), ends, remark)
    return table


def _count(amount: float) -> str:
    for unit, size in ((" G", 1e9), (" M", 1e6), (" k", 1e4)):
        if amount >= size:
            return f"{amount / (1e3 if unit == ' k' else size):.3g}{unit}"
    return f"{amount:,.0f}"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 10 else f"${amount:.3g}"


def _bytes(amount: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if amount >= size:
            return f"{amount / size:.3g} {unit}"
    return f"{amount:.0f} B"
