"""Prints a fingerprint on the terminal."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.analysis.fingerprint import Fingerprint, PlayedSample, PlayedShare
from rollouthub.statistics.amounts import dollars, number, seconds, share
from rollouthub.text import one_line

SHOWN_TOOLS = 12


def print_fingerprint(console: Console, found: Fingerprint, run: Path | None) -> None:
    """Print what is known of an environment, a line a fact."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    others = [split for split in found.splits if split != found.split]
    row = _Rows(table)
    row.add("environment", f"{found.name} {found.version}")
    row.add("tasks", f"{found.tasks:,} in {found.split}" + (f"; other splits: {', '.join(others)}" if others else ""))
    more = f" and {len(found.tools) - SHOWN_TOOLS} more" if len(found.tools) > SHOWN_TOOLS else ""
    row.add("tools", (", ".join(found.tools[:SHOWN_TOOLS]) or "none") + more)
    if len(found.seats) > 1:
        row.add("seats", ", ".join(found.seats))
    row.add("agent", found.default_agent)
    for sample in found.samples.values():
        row.add(sample.agent, _of_sample(sample))
    if found.run is not None:
        _add_run(row, found.run, run)
    console.print(table)


class _Rows:
    def __init__(self, table: Table) -> None:
        self._table = table

    def add(self, name: str, said: str) -> None:
        """Add a line; what environments and runs say drives no terminal."""
        self._table.add_row(name, Text(one_line(said, 2000)))


def _of_sample(sample: PlayedSample) -> str:
    played = sample.played
    if played is None or sample.cpu_seconds is None:
        return f"cannot play: {sample.why}"
    unscored = "" if played.scored == played.rollouts else f", {played.rollouts - played.scored} not scored"
    return (
        f"reward {number(played.mean_reward)}, passed {share(played.pass_rate)} of {played.rollouts}{unscored}; "
        f"{seconds(played.seconds)} an episode, {seconds(sample.cpu_seconds)} of CPU"
    )


def _add_run(row: _Rows, run: PlayedShare, directory: Path | None) -> None:
    spread = run.spread
    row.add("run", f"{directory}: {run.scored:,} of {run.rollouts:,} episodes scored, {run.tasks:,} tasks")
    row.add("  result", f"reward {number(run.mean_reward)}, passed {share(run.pass_rate)}")
    row.add("  floor", f"{share(spread.floor)} of {spread.groups:,} groups have nothing but the lowest result")
    row.add("  ceiling", f"{share(spread.ceiling)} have nothing but the highest")
    if spread.compared:
        row.add(
            "  learnable",
            f"{share(spread.mixed)} of {spread.compared:,} groups of several differ inside; reward ± "
            f"{number(spread.deviation)}, mean p(1-p) {number(spread.learnability)}",
        )
    else:
        row.add("  learnable", "not known: no task was sampled twice (--repeats)")
    row.add(
        "  an episode",
        f"{run.calls:.1f} model calls, {run.prompt_tokens:,.0f} prompt and {run.output_tokens:,.0f} output tokens, "
        f"{dollars(run.cost)}, {seconds(run.seconds)}",
    )
