"""What a test runner says of each test, in the JUnit form that pytest writes; no line of its output is believed."""

from collections.abc import Iterable
from xml.etree import ElementTree


def passed_tests(report: bytes) -> frozenset[str]:
    """The tests that a report says have passed, as `module.Class.name`; none where it cannot be read."""
    try:
        root = ElementTree.fromstring(report)
    except (ElementTree.ParseError, ValueError):
        return frozenset()
    good: set[str] = set()
    bad: set[str] = set()
    for case in root.iter("testcase"):
        name = f"{case.get('classname', '')}.{case.get('name', '')}"
        failed = any(case.find(kind) is not None for kind in ("failure", "error", "skipped"))
        (bad if failed else good).add(name)
    return frozenset(good - bad)


def in_report(test: str) -> str:
    """A test's id as pytest gives it (`tests/test_a.py::TestB::test_c[1]`) in the report's form."""
    file, _, inside = test.partition("::")
    module = file.removesuffix(".py").strip("/").replace("/", ".")
    outer, bracket, parameters = inside.partition("[")
    return f"{module}.{outer.replace('::', '.')}{bracket}{parameters}"


def files_of(tests: Iterable[str]) -> list[str]:
    """The files that tests are in, each once, in order."""
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))
