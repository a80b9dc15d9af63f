"""Tables of runs and of rollouts."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from rich.table import Table
from rich.text import Text

from rollouthub.rollout import Outcome
from rollouthub.statistics.amounts import NONE, moment, number, seconds, share
from rollouthub.store import AttemptSummary, BrokenRun, RunInfo, RunReader, open_run
from rollouthub.store.notes import RunNotes
from rollouthub.text import one_line, plain_name
from rollouthub.views.note_words import note_mark
from rollouthub.views.terminal.run_status import STANDINGS

ROOMY = 130
"""Terminal width in columns from which a list of runs shows all columns."""
NARROW = 100
"""Terminal width in columns below which a list of rollouts shows fewer columns."""


def run_facts(entry: RunInfo | BrokenRun) -> dict[str, Any]:
    """What `hub runs` lists of a run, as a dict."""
    if isinstance(entry, BrokenRun):
        return {"run": str(entry.directory), "status": "unreadable", "problem": entry.problem}
    request = entry.resolved.get("request")
    names = request if isinstance(request, dict) else {}
    environments = names.get("environments")
    with open_run(entry.directory) as reader:
        means = reader.means()
    return {
        "run": str(entry.directory),
        "run_id": entry.run_id,
        "status": entry.status,
        "created_at": entry.created_at,
        "rollouts": means.finished,
        "scored": means.scored,
        "planned": entry.planned,
        "mean_reward": means.mean_reward,
        "pass_rate": means.pass_rate,
        "environments": [str(each) for each in environments] if isinstance(environments, list) else [],
        "agent": names.get("agent"),
        "model": names.get("model"),
    }


def runs_table(found: Sequence[RunInfo | BrokenRun], width: int) -> Table:
    """A table with one row per run, in the given order; below `ROOMY` columns it leaves out when each began and how
    many rollouts were played.
    """
    is_narrow = width < ROOMY
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", overflow="fold")
    table.add_column("status", no_wrap=True)
    if not is_narrow:
        table.add_column("began", no_wrap=True)
    for title in ("scored", *(() if is_narrow else ("played", "planned")), "mean reward", "pass rate"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("environment, agent and model", overflow="fold")
    for facts in map(run_facts, found):
        status = facts["status"]
        stands = STANDINGS.get(status)
        who = [*(PurePath(name).name for name in facts.get("environments", ())), facts.get("agent"), facts.get("model")]
        counts = [NONE if (count := facts.get(name)) is None else f"{count:,}" for name in _COUNTS]
        table.add_row(
            Text(facts["run"]),
            Text(status, style="red") if stands is None else Text(stands.word, style=stands.style),
            *(() if is_narrow else (moment(facts.get("created_at")),)),
            *([f"{counts[0]}/{counts[2]}"] if is_narrow else counts),
            number(facts.get("mean_reward")),
            share(facts.get("pass_rate")),
            Text(", ".join(plain_name(str(name)) for name in who if name)),
        )
    return table


_COUNTS = ("scored", "rollouts", "planned")


def _outcome(outcome: Outcome) -> Text:
    return Text(outcome.value, style="" if outcome is Outcome.SCORED else "red")


def rollouts_table(reader: RunReader, *, limit: int, only_failed: bool, width: int) -> tuple[Table, int]:
    """A table with one row per effective rollout, in the order they ended, and the number that the limit left out."""
    rows: list[AttemptSummary] = []
    left_out = 0
    for row in reader.summaries():
        if only_failed and row.outcome is Outcome.SCORED and row.passed is not False:
            continue
        if limit and len(rows) >= limit:
            left_out += 1
            continue
        rows.append(row)
    return rollout_rows(rows, width, RunNotes.read(reader.directory)), left_out


def rollout_rows(
    rows: Iterable[AttemptSummary], width: int, notes: RunNotes, reasons: Mapping[tuple[str, int], str] | None = None
) -> Table:
    """A table with one row per rollout; below `NARROW` it has fewer columns, to leave room for the task's name.

    A column of notes is there if any row has one; `reasons` makes a column of why each should be reviewed.
    """
    is_narrow, rows = width < NARROW, list(rows)
    marks = [note_mark(notes.of(row.rollout_id, row.attempt)) for row in rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rollout", no_wrap=True)
    table.add_column("task", overflow="fold")
    table.add_column("outcome", no_wrap=True)
    table.add_column("stop", no_wrap=True)
    for title in ("reward", "turns", "tokens") if is_narrow else ("reward", "turns", "calls", "tokens", "time"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in _titles(bool(reasons), any(marks)):
        table.add_column(title, overflow="fold")
    for row, mark in zip(rows, marks, strict=True):
        table.add_row(
            plain_name(row.rollout_id),
            Text(plain_name(row.task_id)),
            Text("suspect", style="yellow") if row.suspect else _outcome(row.outcome),
            row.stop.value,
            number(row.reward),
            f"{row.turns:,}",
            *(() if is_narrow else (f"{row.tool_calls:,}",)),
            f"{row.output_tokens:,}",
            *(() if is_narrow else (seconds(row.seconds),)),
            *((Text(reasons.get((row.rollout_id, row.attempt), "")),) if reasons else ()),
            *((Text(one_line(mark)),) if any(marks) else ()),
        )
    return table


def _titles(has_reasons: bool, has_notes: bool) -> list[str]:
    return ["why"] * has_reasons + ["notes"] * has_notes
