"""The report of `hub check --thorough`: JSON for programs, a page for people."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from rollouthub.protocols import EnvironmentInfo
from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.defect_class import LEAKS, DefectClass
from rollouthub_registry.check.thorough.attack import AttackResult, State


@dataclass
class Report:
    """The report on one environment, filled as attacks end, so that an interrupted check can be reported, too."""

    target: str
    planned: int
    info: EnvironmentInfo | None = None
    split: str = ""
    verdicts: list[AttackResult] = field(default_factory=list[AttackResult])
    findings: list[Finding] = field(default_factory=list[Finding])
    """Findings of the quick checks, which run first."""
    no_findings: str | None = None
    """Why the quick checks did not run; None if they did."""
    seconds: float = 0.0
    is_interrupted: bool = False
    error: str | None = None
    """Why the check ended before the attacks; None if it did not."""
    redact: Callable[[str], str] = str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def counts(self) -> Counter[State]:
        """Number of attacks by state."""
        return Counter(verdict.state for verdict in self.verdicts)

    @property
    def is_broken(self) -> bool:
        """Whether a quick check failed or an attack found a vulnerability."""
        return bool(self.counts["broke"]) or any(finding.state == "failed" for finding in self.findings)

    @property
    def is_passed(self) -> bool:
        """Whether every check and attack ran, and none found a problem."""
        is_whole = len(self.verdicts) == self.planned and not self.is_interrupted and self.error is None
        is_whole = is_whole and not any(verdict.is_cut for verdict in self.verdicts)
        return is_whole and not self.is_broken and bool(self.counts["held"])

    @property
    def summary(self) -> str:
        """The result in one line."""
        counts = self.counts
        failed = sum(finding.state == "failed" for finding in self.findings)
        parts = [f"{counts['held']} attacks held", f"{counts['broke']} broke", f"{counts['not_tried']} not tried"]
        if self.findings:
            parts.append(f"{failed} of {len(self.findings)} quick checks failed")
        if self.is_interrupted:
            parts.append(f"interrupted after {len(self.verdicts)} of {self.planned} attacks")
        return " · ".join(parts)

    def by_leak(self) -> list[tuple[DefectClass, str, list[AttackResult]]]:
        """Verdicts by the class of leak that they look for, in the contract's order; empty for a class no attack
        covers.
        """
        return [
            (leak, meaning, [verdict for verdict in self.verdicts if verdict.leak == leak])
            for leak, meaning in LEAKS.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """The object `hub check --thorough --json` prints."""
        info = self.info
        return {
            "environment": self.target,
            "name": info and info.name,
            "version": info and info.version,
            "digest": info and info.digest,
            "tools_digest": info and info.tools_digest,
            "split": self.split,
            "hub_version": version("rollouthub"),
            "at": self.at.isoformat(timespec="seconds"),
            "passed": self.is_passed,
            "interrupted": self.is_interrupted,
            "error": self.error,
            "seconds": round(self.seconds, 3),
            "held": self.counts["held"],
            "broke": self.counts["broke"],
            "not_tried": self.counts["not_tried"],
            "leaks": {leak: state_of(verdicts) for leak, _, verdicts in self.by_leak()},
            "checks": [finding.as_json() for finding in self.findings],
            "checks_not_made": self.no_findings,
            "attacks": [verdict.as_json(self.redact) for verdict in self.verdicts],
        }


def state_of(verdicts: Sequence[AttackResult]) -> State:
    """The state of a class of leaks: broken if any attack found one, held if at least one was made and none did."""
    states = {verdict.state for verdict in verdicts}
    return "broke" if "broke" in states else "held" if "held" in states else "not_tried"
