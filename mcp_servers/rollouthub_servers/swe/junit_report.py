"""Reads test results from pytest's JUnit report; printed output is not trusted."""

import re
from collections.abc import Iterable
from xml.etree import ElementTree

_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")


def passed_tests(report: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """The tests that passed, and those that failed as expected (xfail); both empty if the report is unreadable.

    Tests are named `module.Class.name`. A name with spaces also appears as its first word, as in published lists, if
    all tests with that word passed.
    """
    try:
        root = ElementTree.fromstring(report)
    except (ElementTree.ParseError, ValueError):
        return frozenset(), frozenset()
    good: set[str] = set()
    expected: set[str] = set()
    bad: set[str] = set()
    for case in root.iter("testcase"):
        full = decoded(f"{case.get('classname', '')}.{case.get('name', '')}")
        skipped = case.find("skipped")
        if skipped is not None and skipped.get("type") == "pytest.xfail":
            group = expected
        else:
            group = bad if any(case.find(kind) is not None for kind in ("failure", "error", "skipped")) else good
        group |= {full, full.split()[0] if full.split() else full}
    return frozenset(good - bad - expected), frozenset(expected - bad)


def sympy_passed(lines: str) -> frozenset[str]:
    """The tests that SymPy's runner reports as `test_name ok`; the last line on a test decides."""
    found: dict[str, bool] = {}
    for line in lines.splitlines():
        words = line.split()
        if len(words) > 1 and words[0].startswith("test_") and words[-1] in ("ok", "E", "F"):
            found[words[0]] = words[-1] == "ok"
    return frozenset(name for name, is_good in found.items() if is_good)


def decoded(name: str) -> str:
    """A name with pytest's escapes (`\\xe9`) replaced by the characters, as in published lists."""
    return _ESCAPE.sub(lambda match: chr(int(match[0][2:], 16)), name)


def in_report(test: str) -> str:
    """A pytest id (`tests/test_a.py::TestB::test_c[1]`) in the report's form."""
    file, _, inside = test.partition("::")
    module = file.removesuffix(".py").strip("/").replace("/", ".")
    outer, bracket, parameters = inside.partition("[")
    return decoded(f"{module}.{outer.replace('::', '.')}{bracket}{parameters}")


def files_of(tests: Iterable[str]) -> list[str]:
    """The files that contain the tests, without duplicates, in order."""
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))
