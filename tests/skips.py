"""Which skips CI allows: by test on its own machine, by reason on a bare one."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

CI = Path(__file__).parent.parent / ".ci"
BARE = "bare"
"""What the variable CI says on a machine with nothing but Python."""


def unexpected_skips(skipped: Iterable[pytest.TestReport], machine: str) -> list[str]:
    """A line about each skip that is not allowed; outside of CI (no machine is named) all are.

    `.ci/skips` has the beginnings of test ids that may be skipped anywhere, and `.ci/skips-bare` the reasons that count
    on a bare machine: one a line, a regular expression that is found in the reason. What follows a # says why.
    """
    if not machine:
        return []
    beginnings = tuple(_lines("skips"))
    reasons = [re.compile(line) for line in _lines("skips-bare")] if machine == BARE else []
    return [
        f"skipped in CI, but not listed in .ci/skips{'-bare' if machine == BARE else ''}: {report.nodeid} ({reason})"
        for report, reason in ((report, _reason(report)) for report in skipped)
        if not report.nodeid.startswith(beginnings) and not any(allowed.search(reason) for allowed in reasons)
    ]


def _lines(name: str) -> list[str]:
    lines = (line.partition("  #")[0].strip() for line in (CI / name).read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _reason(report: pytest.TestReport) -> str:
    told = report.longrepr
    return told[2].removeprefix("Skipped: ") if isinstance(told, tuple) else str(told)
