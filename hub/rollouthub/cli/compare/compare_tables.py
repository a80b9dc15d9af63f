"""The tables of `hub compare`: verdicts, costs and unscored rollouts; each fits 80 columns."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.analysis.compare.comparison import Comparison, RunStanding
from rollouthub.cli.compare.change_tables import print_changes, print_matrix
from rollouthub.statistics import Estimate
from rollouthub.statistics.amounts import NONE, dollars, estimate, seconds, share, signed, size

BESIDE = 68
"""Terminal columns that the widest table needs beside model names; longer names are replaced by numbers and a
legend.
"""


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print all tables of a comparison."""
    labels = [row.label for row in comparison.matrix.rows] if comparison.matrix else []
    names = labels
    if max(map(len, labels)) > console.width - BESIDE:
        names = [str(number) for number in range(1, len(labels) + 1)]
        for number, label in zip(names, labels, strict=True):
            console.print(Text(f"{number}  {label}"))
        console.print()
    if comparison.standings:
        console.print(_verdicts(comparison, names))
        console.print()
        console.print(_costs(comparison, names))
    if any(set(standing.outcomes) - {"scored"} for standing in comparison.standings):
        console.print()
        console.print(_endings(comparison, names))
    if comparison.matrix is not None:
        print_matrix(console, comparison.matrix, names)
    for name, changes in zip(names[1:], comparison.changes, strict=bool(comparison.changes)):
        print_changes(console, changes, name, names[0])
    console.print()
    lines = [f"On {comparison.common:,} common tasks; differences are to the first, paired by task"]
    if comparison.full_tasks is not None:
        lines.append(f"Full: all {comparison.full_tasks:,} tasks, as often and with as many in flight as here")
    lines += [f"{count:,} tasks of {label} are left out" for label, count in comparison.left_out.items()]
    lines += list(comparison.remarks)
    console.print(Text("\n".join(lines), style="dim"))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold", no_wrap=True)
    for title in columns:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _verdicts(comparison: Comparison, names: Sequence[str]) -> Table:
    table = _table("scored", "mean reward (95 %)", "pass rate", "difference (95 %)")
    for name, standing in zip(names, comparison.standings, strict=True):
        table.add_row(
            Text(name),
            f"{standing.scored:,}/{standing.rollouts:,}",
            estimate(standing.mean_reward and standing.mean_reward.value, standing.mean_reward),
            share(standing.pass_rate),
            Text("") if standing.difference is None else _difference(standing.difference),
        )
    return table


def _costs(comparison: Comparison, names: Sequence[str]) -> Table:
    full = comparison.full_tasks
    titles = ["prompt", "output", "p50", "p95", "$ each"]
    if full is not None:
        titles += ["$ full", "time full"]
    table = _table(*titles)
    for name, standing in zip(names, comparison.standings, strict=True):
        cells = [
            size(standing.prompt_tokens),
            size(standing.output_tokens),
            seconds(standing.seconds_p50),
            seconds(standing.seconds_p95),
            dollars(standing.cost),
        ]
        if full is not None:
            cells += [dollars(standing.projected_cost), seconds(standing.projected_seconds)]
        table.add_row(Text(name), *cells)
    return table


def _endings(comparison: Comparison, names: Sequence[str]) -> Table:
    kinds = sorted({kind for standing in comparison.standings for kind in standing.outcomes} - {"scored"})
    table = _table(*(kind.replace("_", " ") + "s" * (kind != "cancelled") for kind in kinds))
    for name, standing in zip(names, comparison.standings, strict=True):
        table.add_row(Text(name), *(_count(standing, kind) for kind in kinds))
    return table


def _count(standing: RunStanding, kind: str) -> str:
    count = standing.outcomes.get(kind, 0)
    return f"{count:,} ({count / standing.rollouts:.0%})" if count else NONE


def _difference(found: Estimate) -> Text:
    """Format a difference with its interval, coloured if the interval excludes zero."""
    low, high = found.low or 0.0, found.high or 0.0
    style = "green" if low > 0 else "red" if high < 0 else ""
    return Text(estimate(found.value, found, signed), style=style)
