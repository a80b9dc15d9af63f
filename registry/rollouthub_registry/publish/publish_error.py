"""Errors of publishing an environment."""

from collections.abc import Sequence

from rollouthub.errors import UsageError
from rollouthub_registry.check.check_finding import Finding


class PublishRefused(UsageError):
    """An environment cannot be published; nothing was written or sent."""


class ChecksFailed(PublishRefused):
    """The environment does not pass its checks, so it is not published."""

    def __init__(self, name: str, findings: Sequence[Finding], problems: Sequence[str] = ()) -> None:
        self.findings = tuple(findings)
        self.problems = tuple(problems)
        """What attacks and the audit of tasks found, a line each."""
        failed = [finding.check for finding in findings if finding.state == "failed"]
        fails = [f"fails {len(failed)} of {len(findings)} checks ({', '.join(failed)})"] if failed else []
        fails += [f"shows {len(problems)} problems under attack and audit"] if problems else []
        super().__init__(
            f"{name} is not published: it {' and '.join(fails)}; mend them and publish again, or publish it marked as "
            "failing with --allow-failing-checks"
        )
