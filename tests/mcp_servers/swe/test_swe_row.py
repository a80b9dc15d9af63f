"""A row as a task: what its columns must hold, and what the agent is shown of it."""

import tracemalloc
from typing import Any

import pytest

from rollouthub.authoring.rows import Row
from rollouthub.errors import DataError
from rollouthub_servers.swe import Swe, junit_report
from rollouthub_servers.swe.agent_changes import crossing
from rollouthub_servers.swe.junit_report import in_report, passed_tests, sympy_passed
from rollouthub_servers.swe.swe_row import SweSecret, make_task, patched

ROW: dict[str, Any] = {
    "instance_id": "one",
    "image": "org/repo:1",
    "repo": "org/repo",
    "problem_statement": "It is broken.",
    "FAIL_TO_PASS": '["tests/test_a.py::test_b"]',
    "PASS_TO_PASS": ["tests/test_a.py::test_c"],
    "test_files": {"tests/test_a.py": "def test_b(): ..."},
    "patch": "--- a/pkg/a.py\n+++ b/pkg/a.py\n@@ -1 +1 @@\n-1\n+2\n",
}


def row(**changes: Any) -> Row:
    values = {key: value for key, value in (ROW | changes).items() if value is not None}
    return Row(values, "rows.jsonl", 1, 0)


def test_a_row_without_a_patch_has_nothing_for_the_oracle() -> None:
    assert Swe.has_reference(make_task("one", row()))
    assert not Swe.has_reference(make_task("one", row(patch=None)))


def test_a_row_makes_a_task_whose_tests_and_patch_are_secret() -> None:
    task = make_task("one", row())
    assert isinstance(task.secret, SweSecret)
    assert task.secret.fail_to_pass == ("tests/test_a.py::test_b",)
    assert task.secret.pass_to_pass == ("tests/test_a.py::test_c",)
    shown = task.public.model_dump_json()
    assert "It is broken." in shown
    assert "/testbed" in shown
    assert "test_b" not in shown
    assert "pkg/a.py" not in shown


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"image": None}, "missing column 'image'"),
        ({"image": None, "build": "none"}, "there is no Dockerfile"),
        ({"problem_statement": " "}, "column 'problem_statement' must be text"),
        ({"FAIL_TO_PASS": "[]"}, "names no test"),
        ({"FAIL_TO_PASS": "test_a"}, "must be a list of tests"),
        ({"FAIL_TO_PASS": [1]}, "must be a list of tests"),
        ({"test_files": None}, "there are no hidden tests"),
        ({"test_files": {"../a": ""}}, "leads out of the repository"),
        ({"test_files": ["a"]}, "must be texts by path"),
    ],
)
def test_a_row_that_makes_no_task_says_why(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=r"rows\.jsonl:1") as error:
        make_task("one", row(**changes))
    assert reason in str(error.value)


def test_a_patch_tells_its_paths() -> None:
    patch = "--- a/x.py\t2020\n+++ b/x.py\t2020\n--- /dev/null\n+++ b/tests/new.py\n"
    assert patched(patch) == {"x.py", "tests/new.py"}


def test_neither_tests_nor_their_settings_cross() -> None:
    changed = [
        "/testbed/pkg/a.py",
        "/testbed/pkg/tests/test_a.py",
        "/testbed/tests/util.py",
        "/testbed/conftest.py",
        "/testbed/pyproject.toml",
        "/testbed/setup.cfg",
        "/testbed/hidden.py",
        "/testbed/.git/index",
        "/testbed/pkg/__pycache__/a.cpython-312.pyc",
        "/testbed/pkg/sitecustomize.py",
        "/usr/bin/python3",
    ]
    kept, held = crossing(changed, "/testbed", {"hidden.py"}, {"setup.cfg"})
    assert kept == ["/testbed/pkg/a.py", "/testbed/setup.cfg"]
    assert held == [
        "pkg/tests/test_a.py",
        "tests/util.py",
        "conftest.py",
        "pyproject.toml",
        "hidden.py",
        "pkg/sitecustomize.py",
    ]


def test_a_report_says_which_tests_passed() -> None:
    report = b"""<testsuites><testsuite>
      <testcase classname="tests.test_a" name="test_b[1-2]"/>
      <testcase classname="tests.test_a.TestC" name="test_d"/>
      <testcase classname="tests.test_a" name="test_e"><failure/></testcase>
      <testcase classname="tests.test_a" name="test_f"><skipped/></testcase>
      <testcase classname="tests.test_a" name="test_g"/>
      <testcase classname="tests.test_a" name="test_g"><error/></testcase>
    </testsuite></testsuites>"""
    good, expected = passed_tests(report)
    assert not expected
    assert {in_report("tests/test_a.py::test_b[1-2]"), in_report("tests/test_a.py::TestC::test_d")} == good
    assert passed_tests(b"<testsuites><testcase") == (frozenset(), frozenset())


EMPTY = frozenset[str]()
NONE = (EMPTY, EMPTY)


@pytest.mark.parametrize(
    ("report", "read"),
    [
        (b'<?xml version="1.0" encoding="foo"?><a/>', NONE),
        (b'<?xml version="1.0" encoding="rot13"?><a/>', NONE),
        (b"<a>" * 30_000, NONE),
        (b"<t>" + b"<a/>" * 40_000 + b"</t>", NONE),
        (b"<t>" + b"<testcase/>" * 30_000 + b"</t>", NONE),
        (
            rb'<t><testcase classname="a" name="\U99999999\ud800"/></t>',
            (frozenset({"a.\\U99999999\ud800"}), EMPTY),
        ),
        (
            b'<t><testcase name="a"><testcase name="b"><failure/></testcase></testcase></t>',
            (frozenset({".a"}), EMPTY),
        ),
        (b"<t>" + b"<x/>" * 10_000 + b'<testcase name="a"/></t>', (frozenset({".a"}), EMPTY)),
    ],
    ids=["encoding", "codec", "depth", "elements", "cases", "characters", "nested", "others"],
)
def test_a_report_that_the_code_under_test_wrote_is_read_or_unreadable_in_little_memory(
    report: bytes, read: tuple[frozenset[str], frozenset[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(junit_report, "MOST_ELEMENTS", 20_000)
    tracemalloc.start()
    try:
        assert passed_tests(report) == read
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_log_of_line_ends_takes_little_memory() -> None:
    lines = "\n" * 2_000_000 + "test_a ok\n  test_b   F\r\ntest_b ok"
    tracemalloc.start()
    try:
        assert sympy_passed(lines) == {"test_a", "test_b"}
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
