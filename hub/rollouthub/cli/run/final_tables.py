"""Prints the results of a run on the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.cli.console import warn
from rollouthub.engine.run_summary import RunSummary
from rollouthub.rollout import Outcome
from rollouthub.statistics import GroupSummary
from rollouthub.statistics.amounts import dollars, estimate, moment, number, of_all, seconds, share
from rollouthub.text import one_line
from rollouthub.views.terminal.trainer_words import trainer_words

SAME = 1e-9
_MOST_ORIGIN = 2000
UNEVEN = "tasks have unlike numbers of samples: avg@k weighs tasks alike, the mean reward weighs samples"


def print_summary(console: Console, summary: RunSummary, *, is_served: bool = False) -> None:
    """Print the results of a run; `is_served` is true if `hub serve` made the run."""
    console.print(_environments(summary))
    if len(summary.tables.overall.at_k) > 1:
        console.print()
        console.print(_at_k(summary.tables.overall))
        if is_uneven_group(summary.tables.overall):
            console.print(Text(UNEVEN, style="dim"))
    if any(map(any, summary.stages.values())):
        console.print()
        console.print(_stages(summary))
    problems = _problems(summary)
    if problems:
        console.print()
        console.print(problems)
        for fault, message in sorted(summary.fault_examples.items()):
            console.print(Text(f"{fault}, for example: {one_line(message)}", style="dim"))
    if not summary.seconds:  # whoever plays it has just said so
        _print_resumptions(console, summary)
    if summary.origin:
        console.print()
    for line in summary.origin:
        console.print(Text(one_line(line, _MOST_ORIGIN), style="dim"))
    console.print()
    console.print(_closing(summary, is_served))


def warn_of_unscored(summary: RunSummary) -> None:
    """Warn how many rollouts have no score, and why, under `--quiet`."""
    unscored = summary.rollouts - summary.scored
    if not unscored:
        return
    warn(f"{unscored:,} of {summary.rollouts:,} rollouts have no score; hub show {summary.place}")
    for fault, message in sorted(summary.fault_examples.items()):
        warn(f"{fault}, for example: {one_line(message)}")


def _print_resumptions(console: Console, summary: RunSummary) -> None:
    """Print when and on which host the run was resumed, and which settings changed then."""
    if summary.resumptions:
        console.print()
    for resumption in summary.resumptions:
        where = f"on {resumption.host}, hub {resumption.hub_version}"
        console.print(Text(f"resumed {moment(resumption.at)} {where}", style="dim"))
        for change in resumption.changes:
            console.print(Text(f"  {one_line(change)}"))


def _environments(summary: RunSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("environment")
    for title in ("tasks", "scored", "mean reward (95 %)", "pass rate (95 %)"):
        table.add_column(title, justify="right", no_wrap=True)
    rows = dict(summary.tables.environments)
    if len(rows) > 1:
        rows["all"] = summary.tables.overall
    for name, group in rows.items():
        planned = summary.rollouts if group.tasks == summary.tables.overall.tasks else group.planned
        table.add_row(
            name,
            f"{group.tasks:,}",
            f"{group.scored:,}/{planned:,}",
            estimate(group.mean_reward, group.mean_estimate),
            estimate(group.pass_rate, group.pass_estimate, share),
        )
    return table


def _at_k(group: GroupSummary) -> Table:
    """The table of pass@k by k; avg@k is shown only if tasks have different numbers of samples."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    is_uneven = is_uneven_group(group)
    for title in ("k", "pass@k (95 %)", *(("avg@k (95 %)",) if is_uneven else ()), "tasks"):
        table.add_column(title, justify="right")
    for at in group.at_k:
        average = (estimate(at.avg_at_k.value, at.avg_at_k),) if is_uneven else ()
        over = at.pass_at_k or at.avg_at_k
        passing = estimate(at.pass_at_k and at.pass_at_k.value, at.pass_at_k, share)
        table.add_row(str(at.k), passing, *average, of_all(over.tasks, group.tasks))
    return table


def is_uneven_group(group: GroupSummary) -> bool:
    """Whether avg@k differs from the mean reward, because tasks have different numbers of samples."""
    mean = group.mean_reward
    if mean is None:
        return False
    averages = [at.avg_at_k.value for at in group.at_k if at.avg_at_k.value is not None]
    return any(abs(average - mean) > SAME for average in averages)


def _stages(summary: RunSummary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage")
    for title in ("p50", "p95", "p99"):
        table.add_column(title, justify="right")
    for stage, values in summary.stages.items():
        if not any(values):
            continue
        table.add_row(stage, *map(seconds, values))
    return table


def _problems(summary: RunSummary) -> Table | None:
    """A table of unscored rollouts by outcome, and of faults in attempts that were retried; None if there are none."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("not scored")
    table.add_column("kind")
    table.add_column("rollouts", justify="right")
    for outcome in Outcome:
        count = summary.means.outcomes[outcome]
        if count and outcome is not Outcome.SCORED:
            table.add_row(outcome.value, outcome.kind.replace("_", " "), f"{count:,}")
    if summary.waiting:
        table.add_row("played, waiting for the group's verdict", "", f"{summary.waiting:,}")
    if not_played := max(0, summary.missing - summary.waiting):
        table.add_row("not played", "", f"{not_played:,}")
    for fault, count in sorted(summary.attempt_faults.items()):
        table.add_row(f"attempts broken by {fault}", "", f"{count:,}", style="dim")
    return table if table.row_count else None


def _closing(summary: RunSummary, is_served: bool) -> Text:
    totals = summary.totals
    facts: list[str] = []
    if summary.seconds:
        facts.append(f"{summary.seconds:.1f} s, {summary.cpu_seconds:.1f} s CPU")
    if totals.output_tokens:
        facts.append(f"{totals.prompt_tokens:,} prompt and {totals.output_tokens:,} output tokens")
    if totals.cost:
        facts.append(dollars(totals.cost))
    if summary.means.mean_reward_strict != summary.means.mean_reward:
        facts.append(f"strict mean {number(summary.means.mean_reward_strict)}, agent failures as 0")
    if summary.suspect:
        facts.append(f"{summary.suspect} suspect scores, not for training")
    if summary.bad_rows:
        facts.append(f"{summary.bad_rows} bad rows left out")
    lines = Text(" · ".join(facts) + "\n" * bool(facts))
    for seat, player in summary.seats.items():
        lines.append(one_line(f"seat {seat}: {player}") + "\n")
    if summary.trainer is not None:
        lines.append(f"trainer: {trainer_words(summary.trainer)}\n")
    if summary.stopped:
        lines.append(f"stopped: {one_line(summary.stopped)}\n", style="yellow")
    lines.append(summary.place, style="bold")
    # Whoever has this table from `hub show` wants a single rollout next.
    which = "" if summary.seconds else " ROLLOUT"
    lines.append(f"\nLook inside with: hub show {summary.place}{which}", style="dim")
    if summary.status == "running":
        lines.append("\nThe run is on; these are the figures so far", style="cyan")
    elif is_served:
        if summary.status != "finished":
            lines.append(f"\nGo on with: hub serve … -o {summary.directory} --resume", style="yellow")
    elif summary.is_interrupted or summary.missing or summary.stopped:
        lines.append(f"\nGo on with: hub run --resume -o {summary.directory}", style="yellow")
    return lines
