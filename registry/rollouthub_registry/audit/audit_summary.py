"""`AuditSummary`: what an audit found in a set, counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rollouthub_registry.audit.task_finding import TaskAudit
from rollouthub_registry.check.defect_class import DEFECTS, DefectClass


@dataclass(frozen=True)
class AuditSummary:
    """The audits of a set's tasks, counted."""

    audits: Sequence[TaskAudit]
    planned: int
    bad_rows: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """Number of tasks that are sound, defective and undecided."""
        counted = Counter(audit.verdict for audit in self.audits)
        return {verdict: counted[verdict] for verdict in ("sound", "defective", "undecided")}

    @property
    def by_class(self) -> dict[DefectClass, tuple[int, int]]:
        """Class → number of tasks with such a defect, and of those with a remark only; without the classes of none."""
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
        return {
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
