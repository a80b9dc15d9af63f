"""`TaskFinding`, `ProbeResult` and `TaskAudit`: what the audit found in a task."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from rollouthub.sandbox_spec import MIB
from rollouthub.values import Frozen
from rollouthub_registry.check.defect_class import DefectClass

Severity = Literal["defect", "remark"]
"""A defect makes the task's score wrong, so that the task is left out of an accepted set; a remark does not."""
State = Literal["held", "broke", "not_tried"]

MOST_TEXT = 600
"""Most characters of a finding's text, and of its evidence."""


class TaskFinding(Frozen):
    """Something wrong with a task."""

    probe: str
    """Name of the probe or cheat that found it."""
    defect: DefectClass
    severity: Severity = "defect"
    says: str
    evidence: str | None = None
    """What was submitted or run."""
    source: str | None = None
    """The paper or issue that describes this hole."""


class ProbeResult(Frozen):
    """The result of one probe on one task."""

    probe: str
    defect: DefectClass
    """The class of what the probe looks for."""
    state: State
    says: str = ""
    """What was tried, or why it was not."""
    findings: tuple[TaskFinding, ...] = ()
    seconds: float = 0.0


class TaskAudit(Frozen):
    """What the audit found in one task."""

    environment: str
    split: str
    task: str
    digest: str
    """Digest of the task."""
    prompt: str = ""
    """Digest of what an agent is told of it, which does not depend on where the task's files lie."""
    results: tuple[ProbeResult, ...] = ()
    fault: str | None = None
    """Why the task could not be audited to its end; None if it was."""
    oracle_reward: float | None = None
    """What the reference solution was paid; None if there is none, or it was not scored."""
    verify_seconds: float | None = None
    """The longest that the verifier took."""
    verify_bytes: int = 0
    """The most memory that the verifier took; other tasks at the same moment may have a share in it."""
    episodes: int = 0
    """Number of episodes played."""
    seconds: float = Field(default=0.0, ge=0)

    @property
    def verifier_took(self) -> str:
        """The most time and memory that the verifier took, in words."""
        memory = f" and {self.verify_bytes / MIB:,.0f} MiB" if self.verify_bytes >= MIB else ""
        return f"{self.verify_seconds or 0:.2f} s{memory} at most"

    @property
    def findings(self) -> Iterator[TaskFinding]:
        """All findings, in the order of the probes."""
        for result in self.results:
            yield from result.findings

    @property
    def defects(self) -> tuple[TaskFinding, ...]:
        """The findings that make its score wrong."""
        return tuple(finding for finding in self.findings if finding.severity == "defect")

    @property
    def verdict(self) -> Literal["sound", "defective", "undecided"]:
        """Whether the task's score can be trusted, as far as it was tried."""
        if self.defects:
            return "defective"
        return "sound" if self.fault is None else "undecided"
