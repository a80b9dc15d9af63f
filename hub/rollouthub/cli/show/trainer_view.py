"""`hub show RUN --trainer-logs DIR`: prints a trainer's logged values beside the run's figures, as a table or JSON."""

import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.statistics.amounts import NONE, number, share
from rollouthub.statistics.spacing import evenly_spaced
from rollouthub.telemetry.trackers.trainer_curves import Beside, put_beside
from rollouthub.telemetry.trackers.trainer_logs import read_trainer_logs

_COLUMNS = (("loss", "loss"), ("kl", "KL"), ("grad_norm", "grad norm"), ("trainer_reward", "its reward"))
_REMARKS = {
    "policy_version": "Rollouts stand beside the step whose policy played them",
    "time": "Rollouts stand beside the step that ended next; they carry no policy versions",
    "none": "Rollouts carry no policy versions and the log no times: nothing says which belong to a step",
}


def show_beside(console: Console, directory: Path, logs: Path, *, limit: int, as_json: bool) -> None:
    """Print the training steps; if there are more than `limit`, an evenly spaced selection (0 prints all).

    Raises:
        UsageError: there are no such logs, or no such run.
    """
    beside = put_beside(directory, read_trainer_logs(logs))
    if as_json:
        sys.stdout.write(json.dumps(beside.as_json()) + "\n")
        return
    console.print(_table(beside, limit))
    console.print()
    left = len(beside.rows) - limit if limit else 0
    says = _REMARKS[beside.alignment] + (f"; {left:,} steps between are left out (--limit 0 lists all)" * (left > 0))
    console.print(Text(says, style="dim"))


def _table(beside: Beside, limit: int) -> Table:
    logged = [(name, title) for name, title in _COLUMNS if any(name in row.step.values for row in beside.rows)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("step", *(title for _, title in logged), "rollouts", "mean reward", "pass rate"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in evenly_spaced(beside.rows, limit or len(beside.rows)):
        values = row.step.values
        table.add_row(
            f"{row.step.step:,}",
            *(f"{values[name]:.4g}" if name in values else NONE for name, _ in logged),
            f"{row.scored:,}" if row.scored else NONE,
            number(row.mean_reward),
            share(row.pass_rate),
        )
    return table
