"""What an audit found, for the terminal: defective tasks as they come, and the set's table at the end."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rollouthub.text import one_line
from rollouthub_registry.audit.audit_run import AuditProgress
from rollouthub_registry.audit.audited_set import AuditedSet
from rollouthub_registry.audit.task_finding import TaskAudit
from rollouthub_registry.check.defect_class import DEFECTS

_SHOWN = 4
_INDENT = 5


def print_task(console: Console, audit: TaskAudit) -> None:
    """Print a task's findings, if there are any; a sound task prints nothing."""
    findings = sorted(audit.findings, key=lambda finding: finding.severity != "defect")
    if not findings and audit.fault is None:
        return
    mark, style = {"defective": ("✗", "bold red"), "undecided": ("?", "yellow"), "sound": ("·", "dim")}[audit.verdict]
    console.print(Text.assemble((mark, style), "  ", (one_line(audit.task, 120), "bold")))
    for finding in findings[:_SHOWN]:
        style = "" if finding.severity == "defect" else "dim"
        line = Text(f"{' ' * (_INDENT - 2)}{finding.defect:<15} {finding.probe}: {one_line(finding.says)}", style=style)
        console.print(line)
    if len(findings) > _SHOWN:
        console.print(Text(f"{' ' * (_INDENT - 2)}… and {len(findings) - _SHOWN} more", style="dim"))
    if audit.fault is not None:
        console.print(Text(f"{' ' * (_INDENT - 2)}not decided: {one_line(audit.fault)}", style="yellow"))


def progress_line(progress: AuditProgress, seconds: float) -> Text:
    """One line of progress."""
    done, planned = len(progress.audits), progress.planned
    fresh = done - progress.kept
    left = f", {(planned - done) * seconds / fresh:.0f} s left" if fresh and planned > done else ""
    defective = sum(audit.verdict == "defective" for audit in progress.audits)
    return Text(f"… {done:,} of {planned:,} tasks, {defective:,} defective{left}", style="dim")


def print_summary(
    console: Console, summary: AuditedSet, folder: Path, seconds: float | None, *, is_interrupted: bool = False
) -> None:
    """Print the set's table and what can be done next."""
    if summary.by_class:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("class", no_wrap=True)
        table.add_column("what it is", overflow="fold")
        table.add_column("defects", justify="right", no_wrap=True)
        table.add_column("remarks", justify="right", no_wrap=True)
        for name, (defects, only_remarks) in summary.by_class.items():
            table.add_row(name, DEFECTS[name], str(defects or "–"), str(only_remarks or "–"))
        console.print()
        console.print(table)
    counts = summary.counts
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count or verdict == "sound")
    bad = f"; {summary.bad_rows:,} rows make no task" if summary.bad_rows else ""
    took = "" if seconds is None else f" · {seconds:.1f} s"
    console.print(Text(f"\n{len(summary.audits):,} of {summary.planned:,} tasks: {said}{bad}{took}"))
    console.print(Text(str(folder)), soft_wrap=True)
    if summary.by_class:
        console.print(Text(f"All that was tried on a task: hub audit {folder} --task ID", style="dim"), soft_wrap=True)
    if is_interrupted or not summary.is_complete:
        console.print(Text(f"Go on with what is left: the same command with -o {folder}", style="dim"), soft_wrap=True)
