"""Rows of published data sets, in their own columns: the image, the runner and the names of tests are found."""

import json
from pathlib import Path
from typing import Any

import pytest

from rollouthub.authoring.rows import Row
from rollouthub.errors import DataError
from rollouthub_servers.swe import Swe, SweConfig
from rollouthub_servers.swe.junit_report import in_report, passed_tests, sympy_passed
from rollouthub_servers.swe.swe_row import SweSecret, make_task
from tests.mcp_servers.containers import Open
from tests.mcp_servers.swe.conftest import PATCH, new_file

DJANGO = ["test_triangle (shapes_tests.tests.AreaTests.test_triangle)", "Squares have four equal sides."]


def swe_bench(repo: str, number: int = 1, **changes: Any) -> dict[str, Any]:
    """A row in the columns of SWE-bench Verified."""
    row = {
        "repo": repo,
        "instance_id": f"{repo.replace('/', '__')}-{number}",
        "base_commit": "0" * 40,
        "patch": "--- a/shapes/areas.py\n+++ b/shapes/areas.py\n@@ -1 +1 @@\n-1\n+2\n",
        "test_patch": new_file("tests/shapes_tests/tests.py", "pass"),
        "problem_statement": "The area of a triangle is twice as large as it should be.",
        "hints_text": "",
        "created_at": "2019-01-01T00:00:00Z",
        "version": "3.1",
        "FAIL_TO_PASS": json.dumps(DJANGO[:1]),
        "PASS_TO_PASS": json.dumps(DJANGO[1:]),
        "environment_setup_commit": "1" * 40,
        "difficulty": "<15 min fix",
    }
    return row | changes


def secret_of(row: dict[str, Any]) -> SweSecret:
    secret = make_task(row["instance_id"], Row(row, "rows.jsonl", 1, 0)).secret
    assert isinstance(secret, SweSecret)
    return secret


@pytest.mark.parametrize(
    ("repo", "image", "runner", "command", "names"),
    [
        ("django/django", "swebench/X.django_1776_django-1", "django", "runtests", "shapes_tests.tests"),
        ("sympy/sympy", "swebench/X.sympy_1776_sympy-1", "sympy", "bin/test -C", "tests/shapes_tests/tests.py"),
        ("psf/requests", "swebench/X.psf_1776_requests-1", "pytest", "pytest -rA", ""),
        ("sphinx-doc/sphinx", "swebench/X.sphinx-doc_1776_sphinx-1", "pytest", "tox", ""),
        ("Project-MONAI/MONAI", "xingyaoww/X.project-monai_s_monai-1", "pytest", "pytest", ""),
        ("getmoto/moto", "xingyaoww/X.getmoto_s_moto-1", "pytest", "pytest -n0 -rA", ""),
    ],
)
def test_a_published_row_says_its_image_and_its_runner_by_its_repository(
    repo: str, image: str, runner: str, command: str, names: str
) -> None:
    secret = secret_of(swe_bench(repo))
    assert (secret.image, secret.runner) == (image.replace("X", "sweb.eval.x86_64") + ":latest", runner)
    assert command in secret.test_command
    assert "conda activate testbed" in secret.prelude
    assert secret.test_names == ((names,) if names else ())
    assert secret.fail_to_pass == (DJANGO[0],)


def test_facts_of_a_version_or_a_repository_hold() -> None:
    assert secret_of(swe_bench("django/django", version="1.9")).test_command == "./tests/runtests.py --verbosity 2"
    assert "locale-gen" in secret_of(swe_bench("django/django", version="3.2")).prelude
    assert "LANG" not in secret_of(swe_bench("django/django", version="4.2")).prelude
    assert "PYTHONPATH" in secret_of(swe_bench("conan-io/conan")).prelude
    cases = new_file("test-data/unit/check-a.test", "[case testOne]\n[case testTwo]\n")
    assert "-k 'testOne or testTwo'" in secret_of(swe_bench("python/mypy", test_patch=cases)).test_command


def test_a_row_that_says_itself_how_it_runs_is_taken_at_its_word() -> None:
    own = secret_of(swe_bench("django/django", image="lab/django:1", test_command="make test"))
    assert (own.image, own.runner, own.prelude, own.is_published) == ("lab/django:1", "plain", "", False)
    mirrored = secret_of(swe_bench("django/django", image="mirror.lab/django:1"))
    assert (mirrored.image, mirrored.runner) == ("mirror.lab/django:1", "django")
    with pytest.raises(DataError, match="'repo' must be one of SWE-bench or SWE-Gym"):
        secret_of(swe_bench("lab/own"))


def test_reports_are_read_as_published_lists_name_tests() -> None:
    good, expected = passed_tests(
        b"""<testsuite>
        <testcase classname="tests.test_a" name="test_b[one two]"/>
        <testcase classname="tests.test_a" name="test_c[same x]"/>
        <testcase classname="tests.test_a" name="test_c[same y]"><failure/></testcase>
        <testcase classname="tests.test_a" name="test_d[\\xe9]"/>
        <testcase classname="tests.test_a" name="test_e"><skipped type="pytest.xfail"/></testcase>
        </testsuite>"""
    )
    assert in_report("tests/test_a.py::test_b[one") in good
    assert in_report("tests/test_a.py::test_c[same") not in good
    assert in_report("tests/test_a.py::test_d[é]") in good
    assert in_report("tests/test_a.py::test_e") in expected - good
    lines = "sympy/core/tests/test_a.py[4]\ntest_b ok\ntest_c F\ntest_d E\ntest_e ok\ntest_e F\ntest_f [OK]\n"
    assert sympy_passed(lines) == {"test_b"}


# --- in containers ------------------------------------------------------------------------------------------------

UNITTESTS = """\
import unittest
from shapes.areas import square, triangle
class AreaTests(unittest.TestCase):
    def test_triangle(self):
        print("test_triangle (shapes_tests.tests.AreaTests) ... ok")
        self.assertEqual(triangle(3, 4), 6)
    def test_square(self):
        '''Squares have four equal sides.'''
        self.assertEqual(square(3), 9)
"""
FUNCTIONS = """\
from shapes.areas import square, triangle
def test_triangle():
    assert triangle(3, 4) == 6
def test_square():
    assert square(3) == 9
"""


@pytest.mark.parametrize(
    ("repo", "path", "text", "names"),
    [
        pytest.param("django/django", "tests/shapes_tests/tests.py", UNITTESTS, DJANGO, marks=pytest.mark.soak),
        ("sympy/sympy", "shapes/tests/test_shapes.py", FUNCTIONS, ["test_triangle", "test_square"]),
        ("psf/requests", "tests/test_a.py", FUNCTIONS, [f"tests/test_a.py::test_{x}" for x in ("triangle", "square")]),
    ],
    ids=["django", "sympy", "pytest"],
)
async def test_a_published_row_is_solved_by_its_patch_and_by_nothing_else(
    play: Open, published_image: str, tmp_path: Path, repo: str, path: str, text: str, names: list[str]
) -> None:
    python = "import sys; print(sys.version_info[:2])"
    row = swe_bench(repo, version="4.2", patch=PATCH, test_patch=new_file(path, text))
    row |= {"FAIL_TO_PASS": json.dumps(names[:1]), "PASS_TO_PASS": json.dumps(names[1:])}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    config = SweConfig(data=str(tmp_path / "rows.jsonl"))
    async with play(Swe, config) as player:
        assert "(3, " in await player.bash(f"python -c '{python}'"), "the agent has the environment, too"
        await player.play_reference()
        score = await player.end()
    assert score.reward == 1.0, score.feedback
    async with play(Swe, config) as player:
        score = await player.end()
    assert (score.reward, score.metrics["pass_to_pass"], score.metrics["fail_to_pass"]) == (0.0, 1.0, 0.0)
