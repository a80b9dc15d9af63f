"""What an agent must not see: the answer and whole files, and nothing that is met by chance or shown anyway."""

import pytest

from rollouthub_registry.audit.hidden_texts import HiddenText, has_word, hidden_texts, is_distinctive
from rollouthub_registry.audit.program_answer import program_answer

SOLUTION = "def parse_ledger(lines):\n    totals = collect_by_name(lines)\n    return totals\n"


@pytest.mark.parametrize(
    ("text", "is_rare"),
    [
        ("4521983", True), ("-4,521,983.5", True), ("100000", False), ("42", False), ("2024", False), ("yes", False),
        ("Washington", False), ("swordfish-and-chips", True), ("aaaaaaaa-1", False), ("x7-Kp2q9", True), ("", False),
    ],
)  # fmt: skip
def test_only_what_is_hardly_met_by_chance_is_looked_for(text: str, is_rare: bool) -> None:
    assert is_distinctive(text) == is_rare


def test_an_answer_within_a_longer_word_was_not_seen() -> None:
    answer = HiddenText("the answer", ("4521983",))
    assert answer.is_in("gold=4521983;")
    assert not answer.is_in("id 94521983 and 45219831")
    assert has_word("x -7-a7", "-7-a7")


def test_an_answer_that_is_shown_is_no_secret() -> None:
    assert [each.name for each in hidden_texts("\\boxed{4521983}", {}, "What is 2 + 2?")] == ["the answer"]
    assert hidden_texts("4521983", {}, "Is it 4521983 or 4521984?") == []


def test_all_lines_of_a_file_together_are_a_secret_and_common_ones_are_none() -> None:
    files = {"solution/solve.py": f"#!/bin/sh\nimport os\n{SOLUTION}", "environment/Dockerfile": "FROM debian:12\n"}
    (hidden,) = hidden_texts(None, files, "Write parse_ledger.")
    assert hidden == HiddenText("solution/solve.py", ("def parse_ledger(lines):", "totals = collect_by_name(lines)"))
    assert hidden.is_in(SOLUTION)
    assert not hidden.is_in("def parse_ledger(lines):\n    pass\n")


def test_lines_that_the_image_has_anyway_are_no_secret() -> None:
    files = {"solution/solve.py": SOLUTION, "environment/app/ledger.py": SOLUTION}
    assert hidden_texts(None, files, "") == []


def test_of_a_patch_only_what_it_adds_is_a_secret() -> None:
    lines = ("--- a/x.py", "+++ b/x.py", "@@ -1,2 +1,2 @@", " same = read_settings()", "-old = read_wrong_ledger()")
    patch = "\n".join((*lines, "+new = read_right_ledger()"))
    (hidden,) = hidden_texts(None, {"solution/fix.patch": patch}, "")
    assert hidden.lines == ("new = read_right_ledger()",)


def test_a_program_is_told_from_prose_and_from_other_answers() -> None:
    fenced = program_answer("```python\ndef area(a, b):\n    return a * b\n```", "")
    assert fenced is not None
    assert (fenced.names, fenced.is_fenced) == (("area",), True)
    assert fenced.with_functions("import os\n", "return None").startswith("```python\nimport os\ndef area(*args")
    for other in ("42", "It took 381 days.", '{"a": 1}', "def inition of a word"):
        assert program_answer(other, "") is None
    asked = program_answer(None, "Complete:\n```python\ndef half(x):\n```")
    assert asked is not None
    assert asked.names == ("half",)
