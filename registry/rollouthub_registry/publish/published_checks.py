"""The results of `hub check` as they are published: which checks were made and how they ended, nothing else.

A statement is public. The details of a failed check may hold a task's answer, an error's text, a secret, or a path of
the publisher's machine: only the number of its problems is published. For a passed check, its own words are.
"""

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from rollouthub.text import one_line
from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.check.checks import CHECKS

LONGEST = 200
"""Most characters of each text from a check."""
MOST = 50
"""Most settings and roles that are named."""
_TITLES = {check.name: check.title for check in CHECKS}
_PATH = re.compile(
    r"(?:file://|(?<![\w.:/-]))(?:~|\.{1,2})?(?:/[\w.+~@%=-]+){2,}/?|\b[A-Za-z]:\\[^\s'\"]+|\\\\[^\s'\"]+"
)


def public_report(findings: Sequence[Finding], asked: CheckRequest) -> JsonValue:
    """The checks' results for the statement, of the same size for a thousand broken tasks as for one."""
    return {
        "split": asked.split,
        "tasks": asked.limit,
        "seed": asked.seed,
        "settings": _named(asked.settings),
        "roles": _named(asked.roles),
        "checks": [_public(finding) for finding in findings if finding.check in _TITLES],
    }


def without_paths(text: str) -> str:
    """A text in which file paths are replaced by `<path>`."""
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
