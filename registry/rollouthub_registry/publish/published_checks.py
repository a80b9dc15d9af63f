"""The results of `hub check` as they are published: what was checked and how it ended, nothing else.

A statement is public. What a failed check found may hold a task's answer, an error's text, a secret, or a path of the
publisher's machine: of that only how much there was is told. What a passed check saw is its own words and numbers.
"""

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from rollouthub.text import one_line
from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.checks import CHECKS

LONGEST = 200
"""Characters of what a check says."""
MOST = 50
"""Settings and roles that are named."""
_TITLES = {check.name: check.title for check in CHECKS}
_PATH = re.compile(
    r"(?:file://|(?<![\w.:/-]))(?:~|\.{1,2})?(?:/[\w.+~@%=-]+){2,}/?|\b[A-Za-z]:\\[^\s'\"]+|\\\\[^\s'\"]+"
)


def public_report(findings: Sequence[Finding], asked: CheckRequest) -> JsonValue:
    """What the statement says of the checks; as long for a thousand broken tasks as for one."""
    return {
        "split": asked.split,
        "tasks": asked.limit,
        "seed": asked.seed,
        "settings": _named(asked.settings),
        "roles": _named(asked.roles),
        "checks": [_public(finding) for finding in findings if finding.check in _TITLES],
    }


def without_paths(text: str) -> str:
    """A text in which no path of a machine stands."""
    return _PATH.sub("<path>", text)


def _named(values: Mapping[str, object]) -> list[JsonValue]:
    return [*(one_line(name, LONGEST) for name in sorted(values)[:MOST])]


def _public(finding: Finding) -> dict[str, JsonValue]:
    said: dict[str, JsonValue] = {
        "check": finding.check,
        "title": _TITLES[finding.check],
        "state": finding.state,
        "seconds": round(finding.seconds, 3),
    }
    if finding.state == "failed":
        return {**said, "problems": max(1, len(finding.details))}
    return {**said, "says": one_line(without_paths(finding.says), LONGEST)}
