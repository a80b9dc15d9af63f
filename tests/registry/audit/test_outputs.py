"""The outputs of an audit: hostile text does nothing in any of them, and a large set stays within bounds."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rollouthub_registry.audit import html_report
from rollouthub_registry.audit.audit_journal import AuditHead
from rollouthub_registry.audit.audited_set import AuditedSet, anchor
from rollouthub_registry.audit.github_summary import markdown
from rollouthub_registry.audit.html_report import page
from rollouthub_registry.audit.task_finding import ProbeResult, TaskAudit, TaskFinding

from .sets import hub_audit, seeded

HOSTILE = (
    "\x1b[31m\x1b]0;title\x07<script>alert(1)</script>\"'><img src=x onerror=a>|[x](https://e.org)![y](z)`c`\u202e"
    "@octocat #12 www.e.org <!-- ~~s~~ $x$ \r\n## head\n| cell |\n"
)


def audit_of(task: str, *, says: str = "", defective: bool = False, fault: str | None = None) -> TaskAudit:
    """An audit with one probe."""
    finding = TaskFinding(probe="null", defect="floor", says=says, evidence=says, source=says)
    result = ProbeResult(
        probe="null", defect="floor", state="broke" if defective else "held", says=says,
        findings=(finding,) if defective else (),
    )  # fmt: skip
    return TaskAudit(environment="e", split="s", task=task, digest="sha256:0", results=(result,), fault=fault)


def audited_set(*audits: TaskAudit, name: str = "e") -> AuditedSet:
    """A set that was audited to its end."""
    head = AuditHead(
        hub_version="1", target=(name,), environments={name: "sha256:0"}, settings={"split": {name: name}, "seed": 0}
    )
    return AuditedSet(audits, len(audits), 0, head, datetime(2026, 1, 2, tzinfo=UTC))


HURT = audited_set(
    audit_of(HOSTILE, says=HOSTILE, defective=True),
    audit_of(f"b{HOSTILE}", says=HOSTILE, fault=HOSTILE),
    audit_of(f"c{HOSTILE}", says=HOSTILE),
    name=HOSTILE,
)


def test_the_page_has_no_element_or_attribute_of_a_tasks() -> None:
    made = page(HURT)
    assert "alert(1)" in made
    assert set(re.findall(r"<!?([a-zA-Z][a-z0-9]*)", made)) <= {
        "doctype", "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "code", "div", "b", "dl",
        "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "a", "span", "details", "summary", "pre",
    }  # fmt: skip
    assert not re.search(r"<[^>]*\son\w+=", made)
    assert not re.search(r"<(?!a )[^>]*\s(?:src|href)=", made)
    assert set(re.findall(r'<a [^>]*href="(.)', made)) == {"#"}
    assert "\x1b" not in made
    assert "\u202e" not in made


def test_the_page_links_each_class_to_its_tasks() -> None:
    audit = audit_of("t", says="paid", defective=True)
    made = page(audited_set(audit, audit_of("u")))
    assert f'href="#{anchor(audit)}"' in made
    assert made.count(f'id="{anchor(audit)}"') == 1
    assert "1 task is defective" in made


def test_markdown_shows_hostile_text_as_text() -> None:
    made = markdown(HURT)
    assert "alert(1)" in made
    for harmful in ("<", "\x1b", "](", "`", "@o", "#1", "://", "www.", "~~", "$", "\u202e", "\r"):
        assert harmful not in made, harmful
    tables = [line for line in made.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in tables} <= {4, 5}
    assert [line for line in made.splitlines() if line.startswith("#")][1:] == ["### Defective", "### Undecided"]


def test_the_terminal_gets_no_escape_sequence_of_a_tasks(tmp_path: Path) -> None:
    file = seeded(tmp_path)
    file.write_text(file.read_text().replace('f"{config.start}sum', 'f"\\x1b[31m\\u202e[bold]{config.start}sum'))
    made = hub_audit(file, "-o", tmp_path / "a", "--limit", "3")
    shown = hub_audit(tmp_path / "a", "--task", "*sum-1")
    for said in (made.out, shown.out):
        assert "sum-1" in said
        assert "[bold]" in said
        assert "\x1b" not in said
        assert "\u202e" not in said


@pytest.mark.parametrize("is_defective", [True, False], ids=["all defective", "all sound"])
def test_ten_thousand_tasks_make_a_page_and_a_summary_within_bounds(
    monkeypatch: pytest.MonkeyPatch, is_defective: bool
) -> None:
    monkeypatch.setattr(html_report, "MOST_BYTES", 2**20)
    many = audited_set(*(audit_of(f"t{number}", says="x" * 500, defective=is_defective) for number in range(10_000)))
    made = page(many)
    assert 2**20 < len(made) < 2**20 + 10_000 * 300
    assert "hub audit FOLDER --task ID" in made
    assert "t9999" in made
    assert len(markdown(many).encode()) < 2**20
