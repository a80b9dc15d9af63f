"""An audit as Markdown for a GitHub job summary (`$GITHUB_STEP_SUMMARY`): no links, no HTML, at most 1 MiB.

https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#adding-a-job-summary
"""

import re
from collections.abc import Iterator

from rollouthub.text import one_line
from rollouthub_registry.audit.audited_set import AuditedSet
from rollouthub_registry.audit.task_finding import TaskAudit
from rollouthub_registry.check.defect_class import DEFECTS

MOST_BYTES = 900_000
"""Most bytes of a summary; GitHub takes 1 MiB of each step."""
_MOST_FINDINGS = 3
_SPECIAL = re.compile(r"[\\`*_\[\]|~<>&$]")
"""What Markdown, tables, formulas and HTML are made of; each is written as its number."""
_LINKING = re.compile(r"[@#](?=\w)|:(?=//)|www(?=\.)", re.IGNORECASE)
"""What makes a mention, a reference or a link of the text after it; an invisible space parts them."""


def markdown(summary: AuditedSet) -> str:
    """The whole summary; text of tasks cannot format it, link, or mention anybody."""
    lines: list[str] = []
    size = 0
    for line in _lines(summary):
        size += len(line.encode()) + 1
        if size > MOST_BYTES:
            lines += ["", "There is more than a job summary takes; the audit's folder holds all of it."]
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _lines(summary: AuditedSet) -> Iterator[str]:
    yield f"## Audit of {_text(summary.name)}"
    yield ""
    counts = summary.counts
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    bad = f"; {summary.bad_rows:,} rows make no task" if summary.bad_rows else ""
    yield f"{len(summary.audits):,} of {summary.planned:,} tasks audited: {said}{bad}."
    if summary.by_class:
        yield from (
            "",
            "| class | what it is | tasks with defects | with remarks only |",
            "| --- | --- | ---: | ---: |",
        )
    for name, (defects, remarks) in summary.by_class.items():
        yield f"| {_text(name)} | {_text(DEFECTS[name])} | {defects:,} | {remarks:,} |"
    for verdict in ("defective", "undecided"):
        chosen = [audit for audit in summary.in_order if audit.verdict == verdict]
        if chosen:
            yield from (
                "",
                f"### {verdict.capitalize()}",
                "",
                "| task | class | what was found |",
                "| --- | --- | --- |",
            )
            for audit in chosen:
                yield from _rows(audit)


def _rows(audit: TaskAudit) -> Iterator[str]:
    found = [(finding.defect, f"{finding.probe}: {finding.says}") for finding in audit.defects]
    rows = found or [("", audit.fault or "")]
    if len(rows) > _MOST_FINDINGS:
        rows = [*rows[:_MOST_FINDINGS], ("", f"and {len(rows) - _MOST_FINDINGS} more")]
    task = _text(one_line(audit.task, 120))
    for number, (defect, says) in enumerate(rows):
        yield f"| {'' if number else task} | {_text(defect)} | {_text(one_line(says, 300))} |"


def _text(text: str) -> str:
    """A line of text in which nothing is Markdown."""
    escaped = _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", one_line(text))
    return _LINKING.sub(lambda found: f"{found[0]}&#8203;", escaped)
