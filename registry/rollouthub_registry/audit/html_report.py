"""An audit as one HTML page: the set's tables, then each task with all that was tried; without scripts."""

from collections.abc import Iterator

from rollouthub.text import one_line
from rollouthub.views.markup import Markup, join, table, tag
from rollouthub_registry.audit.audited_set import AuditedSet, anchor
from rollouthub_registry.audit.known_probes import titles
from rollouthub_registry.audit.task_finding import ProbeResult, State, TaskAudit, TaskFinding
from rollouthub_registry.check.defect_class import DEFECTS, DefectClass
from rollouthub_registry.check.html_document import html_document

MOST_BYTES = 12 * 2**20
"""Size up to which tasks get a section of their own; those after that get a line, and are told by their names."""
_OPEN = 20
"""Number of sections that are open at first."""
_LINKS = 12
"""Number of tasks that a class links to."""
_STATES: dict[State, str] = {"held": "held", "broke": "broke", "not_tried": "not tried"}
_OF_VERDICT: dict[str, State] = {"defective": "broke", "undecided": "not_tried", "sound": "held"}


def page(summary: AuditedSet) -> str:
    """The whole HTML page."""
    title = f"Audit of {one_line(summary.name)}"
    return html_document(title, tag("h1", title), _parts(summary))


def _parts(summary: AuditedSet) -> Iterator[Markup]:
    yield tag("p", "Made by ", tag("code", "hub audit"), ": every task was examined without a model.", class_="soft")
    yield _verdict(summary)
    yield _facts(summary)
    yield _classes(summary)
    yield _probes(summary)
    yield from _tasks(summary)


def _verdict(summary: AuditedSet) -> Markup:
    counts = summary.counts
    said = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
    audited = f"{len(summary.audits):,} of {summary.planned:,} tasks were audited: {said}."
    if counts["defective"]:
        one = counts["defective"] == 1
        state, words = "broke", f"{counts['defective']:,} {'task is' if one else 'tasks are'} defective"
    elif summary.is_sound:
        state, words = "held", "No defect was found in any task"
    else:
        state, words = "not_tried", "Not decided: not every task was audited to its end"
    return tag("div", tag("b", words), audited, class_=f"verdict {state}")


def _facts(summary: AuditedSet) -> Markup:
    head = summary.head
    facts: dict[str, str] = {}
    if head is not None:
        facts["environment"] = ", ".join(f"{name} ({digest})" for name, digest in head.environments.items())
        facts["asked for"] = " ".join(head.target)
        facts["split"] = ", ".join(str(split) for split in dict(head.settings.get("split", {})).values())
        facts["seed"] = str(head.settings.get("seed", 0))
        facts["hub"] = head.hub_version
    if summary.at is not None:
        facts["audited"] = summary.at.strftime("%Y-%m-%d %H:%M:%S UTC")
    facts["episodes"] = f"{sum(audit.episodes for audit in summary.audits):,}"
    if summary.bad_rows:
        facts["rows that make no task"] = f"{summary.bad_rows:,}"
    return tag("dl", (join(tag("dt", name), tag("dd", one_line(text))) for name, text in facts.items()))


def _classes(summary: AuditedSet) -> Markup:
    rows = [
        (tag("b", name), DEFECTS[name], _links(summary, name), f"{defects:,}" if defects else "–",
         f"{remarks:,}" if remarks else "–")
        for name, (defects, remarks) in summary.by_class.items()
    ]  # fmt: skip
    if not rows:
        return join()
    heads = ("class", "what it is", "tasks", "with defects", "with remarks only")
    return join(tag("h2", "By class"), table(heads, rows, words=3))


def _links(summary: AuditedSet, name: DefectClass) -> Markup:
    having = [
        audit
        for audit in summary.in_order
        if any(finding.defect == name for finding in audit.findings)
    ]  # fmt: skip
    links = [
        join(" " if number else None, tag("a", one_line(audit.task, 40), href=f"#{anchor(audit)}"))
        for number, audit in enumerate(having[:_LINKS])
    ]
    return join(links, f" and {len(having) - _LINKS:,} more" if len(having) > _LINKS else None)


def _probes(summary: AuditedSet) -> Markup:
    known = titles()
    tried = sorted(summary.probes.items(), key=lambda each: -each[1]["broke"])
    rows = [
        (tag("code", one_line(name, 120)), known.get(name, ""), *(f"{counts[state]:,}" for state in _STATES))
        for name, counts in tried
    ]
    if not rows:
        return join()
    heads = ("probe or cheat", "what holds where it finds nothing", *_STATES.values())
    broke = sum(counts["broke"] > 0 for _, counts in tried)
    said = f"{len(rows):,} probes and cheats, of which {broke:,} found something"
    summary_line = tag("summary", tag("b", "By probe", class_="title"), tag("span", said, class_="soft"))
    return join(tag("h2", "Probes"), tag("details", summary_line, table(heads, rows, words=2)))


def _tasks(summary: AuditedSet) -> Iterator[Markup]:
    yield tag("h2", "Tasks")
    size = count = 0
    left: list[TaskAudit] = []
    for audit in summary.in_order:
        made = _task(audit, is_open=count < _OPEN and audit.verdict != "sound") if size < MOST_BYTES else None
        if made is None:
            left.append(audit)
            continue
        size += len(made)
        count += 1
        yield made
    if left:
        yield tag("p", f"{len(left):,} more, each told by ", tag("code", "hub audit FOLDER --task ID"), ":")
        rows = (
            (tag("span", one_line(audit.task, 120), id=anchor(audit)), audit.verdict, ", ".join(_kinds(audit)))
            for audit in left
        )
        yield table(("task", "", "classes"), rows, words=3)


def _kinds(audit: TaskAudit) -> list[str]:
    return list(dict.fromkeys(finding.defect for finding in audit.findings))


def _task(audit: TaskAudit, *, is_open: bool) -> Markup:
    summary = tag(
        "summary",
        tag("span", audit.verdict, class_=f"mark {_OF_VERDICT[audit.verdict]}"),
        tag("code", one_line(audit.task, 120), class_="title"),
        tag("span", ", ".join(_kinds(audit)), class_="soft"),
    )
    paid = "not known" if audit.oracle_reward is None else f"{audit.oracle_reward:g}"
    verified = "" if audit.verify_seconds is None else f" · verifier {audit.verifier_took}"
    told = f"split {audit.split} · {audit.digest} · reference paid {paid}{verified} · {audit.episodes:,} episodes"
    inside = [
        tag("p", told, class_="soft"),
        tag("p", tag("b", "Not decided: "), audit.fault) if audit.fault is not None else None,
        *(_finding(finding) for finding in sorted(audit.findings, key=lambda each: each.severity != "defect")),
        table(("probe", "class", "", "what was tried"), (_result(each) for each in audit.results), words=4),
    ]
    shown = [part for part in inside if part is not None]
    return tag("details", summary, tag("div", shown, class_="inside"), id=anchor(audit), open=is_open)


def _finding(finding: TaskFinding) -> Markup:
    more = f"{finding.severity} · {finding.defect}: {DEFECTS[finding.defect]} · found by {finding.probe}"
    return tag(
        "div",
        tag("p", tag("b", finding.says)),
        tag("p", more, class_="soft"),
        tag("p", f"Source: {finding.source}", class_="soft") if finding.source else None,
        tag("pre", finding.evidence) if finding.evidence else None,
        class_="problem" if finding.severity == "defect" else "problem remark",
    )


def _result(result: ProbeResult) -> tuple[Markup, str, Markup, str]:
    state = result.state
    remarked = state == "broke" and all(finding.severity == "remark" for finding in result.findings)
    mark = tag("span", "remark", class_="mark not_tried") if remarked else tag(
        "span", _STATES[state], class_=f"mark {state}"
    )  # fmt: skip
    return tag("code", result.probe), result.defect, mark, result.says
