"""Reads test results from pytest's JUnit report; printed output is not trusted."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast
from xml.etree import ElementTree

MOST_ELEMENTS = 300_000
"""Most XML elements of a report that is read."""
_PIECE = 64 * 2**10
_CASE = "testcase"
_OUTCOMES = ("", "PASSED", "ERROR", "FAILED")
"""How a test may end, the worst last."""
_TEST_LINE = re.compile(r"^[ \t]*+(test_\S*+)[ \t](?:.{0,1000}?[ \t])??(ok|[EF])[ \t\r]*+$", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})")


def passed_tests(report: bytes) -> tuple[frozenset[str], frozenset[str]]:
    """The tests that passed, and those that failed as expected (xfail); both empty if the report is unreadable.

    Tests are named `module.Class.name`. A name with spaces also appears as its first word, as in published lists, if
    all tests with that word passed. The code under test may have written it, so nothing of it is kept but names; a
    large one takes seconds, which are for a thread.
    """
    good: set[str] = set()
    expected: set[str] = set()
    bad: set[str] = set()
    try:
        for case in _cases(report):
            full = decoded(f"{case.get('classname', '')}.{case.get('name', '')}")
            skipped = case.find("skipped")
            if skipped is not None and skipped.get("type") == "pytest.xfail":
                group = expected
            else:
                group = bad if any(case.find(kind) is not None for kind in ("failure", "error", "skipped")) else good
            group |= {full, full.split()[0] if full.split() else full}
    except (ElementTree.ParseError, ValueError, LookupError):  # of its XML, of its encoding
        return frozenset(), frozenset()
    return frozenset(good - bad - expected), frozenset(expected - bad)


def outcomes_of(report: bytes) -> dict[str, str]:
    """How each test ended (`PASSED`, `FAILED`, `ERROR`) by its name without its module, as in R2E-Gym's lists.

    Of several tests of one name, the worst counts. Skipped ones are left out, and so are those that failed as expected.
    A module that cannot be loaded is an error without a name. Empty if the report is unreadable.
    """
    found: dict[str, str] = {}
    try:
        for case in _cases(report):
            if case.find("skipped") is not None:
                continue
            place, name = case.get("classname", ""), case.get("name", "")
            classes = place.split(".")[2:]  # below the folder and the module of the tests
            full = decoded(".".join([*classes, name])).replace("::", ".").split(" - ")[0] if place else ""
            ended = "FAILED" if case.find("failure") is not None else "ERROR" if case.find("error") is not None else ""
            found[full] = max(found.get(full, ""), ended or "PASSED", key=_OUTCOMES.index)
    except (ElementTree.ParseError, ValueError, LookupError):
        return {}
    return found


def _cases(report: bytes) -> Iterator[ElementTree.Element]:
    """The test cases, one after the other, so that never more than one is in memory.

    Raises:
        ParseError, ValueError, LookupError: the report is unreadable, or has more elements than any.
    """
    parser = cast(Any, ElementTree.XMLPullParser)(("start", "end"))
    above: list[ElementTree.Element] = []
    count, inside = 0, 0
    for start in range(0, len(report), _PIECE):
        parser.feed(report[start : start + _PIECE])
        events: Iterator[tuple[str, ElementTree.Element]] = parser.read_events()
        for event, element in events:
            if event == "start":
                above.append(element)
                count, inside = count + 1, inside + (element.tag == _CASE)
                if count > MOST_ELEMENTS:
                    raise ValueError(f"more than {MOST_ELEMENTS:,} elements")
                continue
            above.pop()
            inside -= element.tag == _CASE
            if not inside:
                if element.tag == _CASE:
                    yield element
                if above:
                    above[-1].remove(element)
    parser.close()


def sympy_passed(lines: str) -> frozenset[str]:
    """The tests that SymPy's runner reports as `test_name ok`; the last line on a test decides."""
    found: dict[str, str] = dict(_TEST_LINE.findall(lines))
    return frozenset(name for name, result in found.items() if result == "ok")


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
