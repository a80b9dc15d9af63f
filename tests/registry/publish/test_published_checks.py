"""The published report: what was looked at and how it ended, and nothing that is not everybody's."""

import json

import pytest

from rollouthub_registry.check.check_finding import Finding
from rollouthub_registry.check.check_request import CheckRequest
from rollouthub_registry.publish.published_checks import public_report, without_paths

FAILED = Finding(
    "oracle",
    "oracle",
    "the reference solution wins",
    "failed",
    "the environment raised KeyError: 'the answer is 4711'",
    tuple(f"task/{number}: reward 0 (expected 4711)" for number in range(5000)),
    "mend it",
    1.0,
)


def test_what_a_failed_check_found_is_counted_and_not_told() -> None:
    said = json.dumps(public_report([FAILED], CheckRequest()))
    assert '"state": "failed"' in said
    assert '"problems": 5000' in said
    assert "4711" not in said
    assert len(said) < 1000


def test_settings_and_models_are_named_without_their_values() -> None:
    asked = CheckRequest(settings={"data": "/home/somebody/data"}, roles={"judge": "openai/ours"})
    said = json.dumps(public_report([], asked))
    assert '"settings": ["data"]' in said
    assert '"roles": ["judge"]' in said
    assert "somebody" not in said
    assert "ours" not in said


def test_a_report_is_bounded_whatever_a_check_says() -> None:
    finding = Finding("tasks", "tasks", "x" * 10_000, "passed", "y" * 10_000 + "\x1b[31m")
    settings = {f"{number:03}" + "k" * 5000: 1 for number in range(500)}
    said = json.dumps(
        public_report([finding, Finding("made-up", "tasks", "", "passed", "")] * 40, CheckRequest(settings=settings))
    )
    assert len(said) < 40_000
    assert "made-up" not in said
    assert "\\u001b" not in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("in /home/me/environment/x.py: no", "in <path>: no"),
        ("file:///home/me/a", "<path>"),
        (r"at C:\Users\me\x", "at <path>"),
        ("~/a/b and ../c/d", "<path> and <path>"),
        ("1/2 of openai/org/model", "1/2 of openai/org/model"),
    ],
)
def test_paths_of_a_machine_are_left_out(text: str, shown: str) -> None:
    assert without_paths(text) == shown
