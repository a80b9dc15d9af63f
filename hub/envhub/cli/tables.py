"""Lists of runs and of rollouts, as tables."""

import time
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from envhub.rollout import Outcome
from envhub.store import RunInfo, RunReader


def runs_table(found: Sequence[RunInfo]) -> Table:
    """A line per run, newest first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("run", "status", "when"):
        table.add_column(title)
    for title in ("done", "planned"):
        table.add_column(title, justify="right")
    table.add_column("model or agent")
    for entry in found:
        request = entry.resolved.get("request") if entry.resolved else None
        names = request if isinstance(request, dict) else {}
        table.add_row(
            Text(str(entry.directory)),
            Text(entry.status, style=_STYLE.get(entry.status, "red")),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.created_at)) if entry.created_at else "",
            str(entry.done),
            "–" if entry.planned is None else str(entry.planned),
            Text(str(names.get("model") or names.get("agent") or "")),
        )
    return table


_STYLE = {"running": "cyan", "finished": "green", "interrupted": "yellow", "dead": "red"}


def rollouts_table(reader: RunReader, *, limit: int, only_failed: bool) -> tuple[Table, int]:
    """A line per effective rollout in the order they ended, and how many the limit left out."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("rollout", "task", "outcome", "stop"):
        table.add_column(title)
    for title in ("reward", "turns", "calls", "tokens", "seconds", "attempt"):
        table.add_column(title, justify="right")
    left_out = 0
    for row in reader.summaries():
        if only_failed and row.outcome is Outcome.SCORED and row.passed is not False:
            continue
        if limit and table.row_count >= limit:
            left_out += 1
            continue
        table.add_row(
            row.rollout_id,
            Text(row.task_id),
            Text(row.outcome.value, style="" if row.outcome is Outcome.SCORED else "red"),
            row.stop.value,
            "–" if row.reward is None else f"{row.reward:.3f}",
            str(row.turns),
            str(row.tool_calls),
            str(row.output_tokens),
            f"{row.seconds:.3f}",
            str(row.attempt),
        )
    return table, left_out
