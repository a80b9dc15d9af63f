"""CI takes a skip for what it knows to be missing, and no other."""

import pytest

from tests.skips import BARE, unexpected_skips


def skipped(nodeid: str, reason: str) -> pytest.TestReport:
    told = ("tests/x.py", 1, f"Skipped: {reason}")
    return pytest.TestReport(nodeid, ("tests/x.py", 1, ""), {}, "skipped", told, "setup")


LACKS = skipped("tests/x.py::test_boxed", "docker: no container engine answers; start docker or podman")
LISTED = skipped("tests/models/test_live.py::test_any", "ROLLOUTHUB_VLLM_URL names no vLLM server")
FORGOTTEN = skipped("tests/x.py::test_lost", "pyarrow is not installed")


def test_a_bare_machine_may_skip_for_what_it_lacks() -> None:
    assert unexpected_skips([LACKS, LISTED], BARE) == []


def test_any_other_reason_is_named_with_its_test() -> None:
    (told,) = unexpected_skips([LACKS, FORGOTTEN], BARE)
    assert "tests/x.py::test_lost (pyarrow is not installed)" in told


def test_a_machine_that_has_everything_skips_only_listed_tests() -> None:
    (told,) = unexpected_skips([LACKS, LISTED], "true")
    assert "tests/x.py::test_boxed" in told


def test_outside_of_ci_everything_may_be_skipped() -> None:
    assert unexpected_skips([LACKS, FORGOTTEN], "") == []
