"""The report of `hub check --thorough`: JSON for programs, a page for people."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from rollouthub.protocols import EnvironmentInfo
from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.thorough.attack import LEAKS, AttackResult, Leak, State


@dataclass
class Report:
    """One campaign; filled while it goes on, so that an interrupted one can be told, too."""

    target: str
    planned: int
    info: EnvironmentInfo | None = None
    split: str = ""
    verdicts: list[AttackResult] = field(default_factory=list[AttackResult])
    findings: list[Finding] = field(default_factory=list[Finding])
    """Of the quick checks, which come first."""
    no_findings: str | None = None
    """Why the quick checks were not made."""
    seconds: float = 0.0
    is_interrupted: bool = False
    error: str | None = None
    """Why it ended before the attacks."""
    redact: Callable[[str], str] = str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def counts(self) -> Counter[State]:
        """Attacks by how they ended."""
        return Counter(verdict.state for verdict in self.verdicts)

    @property
    def is_broken(self) -> bool:
        """Whether anything was found that must be mended."""
        return bool(self.counts["broke"]) or any(finding.state == "failed" for finding in self.findings)

    @property
    def is_passed(self) -> bool:
        """Whether everything was gone through, and nothing broke."""
        is_whole = len(self.verdicts) == self.planned and not self.is_interrupted and self.error is None
        is_whole = is_whole and not any(verdict.is_cut for verdict in self.verdicts)
        return is_whole and not self.is_broken and bool(self.counts["held"])

    @property
    def summary(self) -> str:
        """In one line."""
        counts = self.counts
        failed = sum(finding.state == "failed" for finding in self.findings)
        parts = [f"{counts['held']} attacks held", f"{counts['broke']} broke", f"{counts['not_tried']} not tried"]
        if self.findings:
            parts.append(f"{failed} of {len(self.findings)} quick checks failed")
        if self.is_interrupted:
            parts.append(f"interrupted after {len(self.verdicts)} of {self.planned} attacks")
        return " · ".join(parts)

    def by_leak(self) -> list[tuple[Leak, str, list[AttackResult]]]:
        """Verdicts by what they look for, in the contract's order; classes nothing was done about stand empty."""
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
    """A class of leaks: broke where any attack broke it, held where any was made and held."""
    states = {verdict.state for verdict in verdicts}
    return "broke" if "broke" in states else "held" if "held" in states else "not_tried"
