"""`AuditedSet`: what an audit found in a set, counted."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rollouthub_registry.audit.audit_journal import AuditHead, AuditRecord
from rollouthub_registry.audit.task_finding import TaskAudit
from rollouthub_registry.check.defect_class import DEFECTS, DefectClass

FORMAT = 1
"""Version of the JSON object: raised when a field changes its meaning or goes."""


@dataclass(frozen=True)
class AuditedSet:
    """The audits of a set's tasks, counted."""

    audits: Sequence[TaskAudit]
    planned: int
    bad_rows: int = 0
    """Number of rows that make no task."""
    head: AuditHead | None = None
    """What was audited, and how; None if the audit was ended before it opened anything."""
    at: datetime | None = None
    """When it was begun or last went on."""

    @classmethod
    def of(cls, record: AuditRecord) -> "AuditedSet":
        """The summary of an audit that was kept."""
        start = record.start
        planned = len(record.audits) if start is None else max(start.planned, len(record.audits))
        bad_rows, at = (0, None) if start is None else (start.bad_rows, start.at)
        return cls(record.audits, planned, bad_rows, record.head, at)

    @property
    def name(self) -> str:
        """The environments' names."""
        return "nothing" if self.head is None else ", ".join(self.head.environments)

    @property
    def in_order(self) -> list[TaskAudit]:
        """The audits, with the defective ones first, then the undecided, those with remarks, and the sound."""
        return sorted(self.audits, key=_urgency)

    @property
    def counts(self) -> dict[str, int]:
        """Number of tasks that are sound, defective and undecided."""
        counted = Counter(audit.verdict for audit in self.audits)
        return {verdict: counted[verdict] for verdict in ("sound", "defective", "undecided")}

    @property
    def by_class(self) -> dict[DefectClass, tuple[int, int]]:
        """Class → number of tasks with such a defect, and with a remark only; without classes that have none."""
        found: dict[DefectClass, tuple[int, int]] = {}
        for name in DEFECTS:
            defects = remarks = 0
            for audit in self.audits:
                kinds = {finding.severity for finding in audit.findings if finding.defect == name}
                defects += "defect" in kinds
                remarks += kinds == {"remark"}
            if defects or remarks:
                found[name] = (defects, remarks)
        return found

    @property
    def probes(self) -> dict[str, dict[str, int]]:
        """Probe → number of tasks on which it held, broke, and was not tried."""
        found: dict[str, dict[str, int]] = {}
        for audit in self.audits:
            for result in audit.results:
                counts = found.setdefault(result.probe, {"held": 0, "broke": 0, "not_tried": 0})
                counts[result.state] += 1
        return found

    @property
    def is_complete(self) -> bool:
        """Whether every planned task was audited."""
        return len(self.audits) >= self.planned

    @property
    def is_sound(self) -> bool:
        """Whether every planned task was audited and found sound."""
        return self.is_complete and self.counts["sound"] == len(self.audits)

    def as_json(self) -> dict[str, Any]:
        """The object that `hub audit --json` prints."""
        head = self.head
        return {
            "format": FORMAT,
            "hub_version": head and head.hub_version,
            "at": self.at and self.at.isoformat(timespec="seconds"),
            "environments": {} if head is None else head.environments,
            "settings": {} if head is None else head.settings,
            "sound_set": self.is_sound,
            "complete": self.is_complete,
            "planned": self.planned,
            "audited": len(self.audits),
            "bad_rows": self.bad_rows,
            **self.counts,
            "classes": {
                name: {"title": DEFECTS[name], "defects": defects, "remarks": remarks}
                for name, (defects, remarks) in self.by_class.items()
            },
            "probes": self.probes,
            "tasks": [{**audit.model_dump(mode="json"), "verdict": audit.verdict} for audit in self.audits],
        }


def anchor(audit: TaskAudit) -> str:
    """The name of a task's place in a page: the same in each audit."""
    words = "\0".join((audit.environment, audit.split, audit.task))
    return f"task-{hashlib.blake2b(words.encode(errors='replace'), digest_size=8).hexdigest()}"


def _urgency(audit: TaskAudit) -> tuple[int, bool]:
    return ("defective", "undecided", "sound").index(audit.verdict), not any(True for _ in audit.findings)
