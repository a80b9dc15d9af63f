"""A task's page in the terminal: every probe with what was tried, and each finding with its evidence."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from rollouthub.text import one_line, printable
from rollouthub_registry.audit.task_finding import ProbeResult, TaskAudit, TaskFinding
from rollouthub_registry.check.defect_class import DEFECTS

_MARKS = {"held": ("✓", "green"), "broke": ("✗", "bold red"), "not_tried": ("–", "dim")}
_VERDICTS = {"defective": "bold red", "undecided": "yellow", "sound": "green"}
_INDENT = "     "


def print_page(console: Console, audit: TaskAudit) -> None:
    """Print all that the audit tried on a task and found in it."""
    for line in _lines(audit):
        console.print(line, soft_wrap=True)
    console.print()


def _lines(audit: TaskAudit) -> Iterator[Text]:
    yield Text.assemble((one_line(audit.task, 120), "bold"), "  ", (audit.verdict, _VERDICTS[audit.verdict]))
    paid = "not known" if audit.oracle_reward is None else f"{audit.oracle_reward:g}"
    facts = [one_line(audit.environment), f"split {one_line(audit.split)}", audit.digest, f"reference paid {paid}"]
    if audit.verify_seconds is not None:
        facts.append(f"verifier {audit.verifier_took}")
    facts += [f"{audit.episodes:,} episodes", f"{audit.seconds:.1f} s"]
    yield Text(" · ".join(facts), style="dim")
    if audit.fault is not None:
        yield Text(f"not decided: {one_line(audit.fault)}", style="yellow")
    for result in audit.results:
        yield _probe(result)
        for finding in result.findings:
            yield from _finding(finding)


def _probe(result: ProbeResult) -> Text:
    is_remark = result.state == "broke" and all(finding.severity == "remark" for finding in result.findings)
    mark, style = ("·", "yellow") if is_remark else _MARKS[result.state]
    said = one_line(result.says) or ("not tried" if result.state == "not_tried" else "")
    about = "" if result.state != "not_tried" else "not tried: "
    name = f"{one_line(result.probe, 40):<20} {result.defect:<15} "
    return Text.assemble((mark, style), "  ", name, (f"{about}{said}", "dim" if about else ""))


def _finding(finding: TaskFinding) -> Iterator[Text]:
    style = "red" if finding.severity == "defect" else "yellow"
    yield Text.assemble(_INDENT, (f"{finding.severity}: ", style), one_line(finding.says, 700))
    yield Text(f"{_INDENT}{finding.defect}: {DEFECTS[finding.defect]}", style="dim")
    if finding.source:
        yield Text(f"{_INDENT}source: {one_line(finding.source)}", style="dim")
    if finding.evidence:
        for line in printable(finding.evidence).splitlines():
            yield Text(f"{_INDENT}│ {line}", style="dim")
