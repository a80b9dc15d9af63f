"""Rows of SWE-rebench, SWE-smith and R2E-Gym in their own columns: what is read of them, played and attacked."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollouthub import BadRow
from rollouthub.authoring.rows import Row
from rollouthub.errors import DataError
from rollouthub.sandbox import Build
from rollouthub_servers.swe import Swe, SweConfig, agent_image
from rollouthub_servers.swe.junit_report import outcomes_of
from rollouthub_servers.swe.published_data_sets import exports
from rollouthub_servers.swe.row_formats import FORMATS, format_of
from rollouthub_servers.swe.swe_row import SweSecret, make_task
from tests.mcp_servers.conftest import PUBLISHED
from tests.mcp_servers.containers import Open
from tests.mcp_servers.swe.conftest import PATCH, build, new_file

DOCS = Path(__file__).parents[3] / "docs" / "terminal.md"
CANARY = "577215664901532860"
TRIANGLE = f"from shapes.areas import triangle\ndef test_triangle():\n    assert triangle(3, 4) == 6, '{CANARY}'\n"
SQUARE = (
    "from shapes.areas import square\nclass TestSquare:\n    def test_square(self):\n        assert square(3) == 9\n"
)
BUG = """\
--- a/shapes/areas.py
+++ b/shapes/areas.py
@@ -5,2 +5,2 @@
 def triangle(base, height):
-    return base * height / 2
+    return base * height
"""
REPAIRED = "def square(side):\n    return side * side\n\n\ndef triangle(base, height):\n    return base * height / 2\n"
FAIL, PASS = "tests/test_triangle.py::test_triangle", "tests/test_square.py::TestSquare::test_square"


def swe_rebench(**changes: Any) -> dict[str, Any]:
    """A row of nebius/SWE-rebench."""
    config = {
        "python": "3.9",
        "install": "pip install -e .[dev]",
        "log_parser": "parse_log_pytest",
        "test_cmd": "pytest --no-header -rA --tb=line --color=no -p no:cacheprovider",
        "pre_install": ["apt-get update"],
        "packages": "requirements.txt",
        "no_use_env": None,
    }
    row = {
        "instance_id": "lab__shapes-1",
        "base_commit": "0" * 40,
        "created_at": "2024-01-01 00:00:00",
        "environment_setup_commit": "1" * 40,
        "hints_text": "",
        "patch": PATCH,
        "problem_statement": "The area of a triangle is twice as large as it should be.",
        "repo": "lab/shapes",
        "test_patch": new_file("tests/test_triangle.py", TRIANGLE) + new_file("tests/test_square.py", SQUARE),
        "meta": {"llm_score": {"test_score": 0}},
        "version": "1.0",
        "install_config": config,
        "requirements": "pytest==8.4.2",
        "FAIL_TO_PASS": [FAIL],
        "FAIL_TO_FAIL": [],
        "PASS_TO_PASS": [PASS],
        "license_name": "MIT License",
        "docker_image": "swerebench/sweb.eval.x86_64.lab_1776_shapes-1",
        "image_name": None,
    }
    return row | changes


def swe_smith(**changes: Any) -> dict[str, Any]:
    """A row of SWE-bench/SWE-smith."""
    row = {
        "instance_id": "lab__shapes.0a1b2c3d.func_basic__abcdefgh",
        "patch": BUG,
        "FAIL_TO_PASS": [FAIL],
        "PASS_TO_PASS": [PASS],
        "image_name": "swebench/swesmith.x86_64.lab_1776_shapes.0a1b2c3d",
        "repo": "swesmith/lab__shapes.0a1b2c3d",
        "problem_statement": "The area of a triangle is twice as large as it should be.",
    }
    return row | changes


def hunk_line(kind: str, content: str) -> dict[str, str]:
    return {"type": kind, "content": content}


def r2e_gym(**changes: Any) -> dict[str, Any]:
    """A row of R2E-Gym/R2E-Gym-Subset."""
    lines = [hunk_line("context", "def triangle(base, height):")]
    lines += [hunk_line("deleted", "    return base * height"), hunk_line("added", "    return base * height / 2")]
    hunk = {
        "descriptor": {"old_range": {"start": 5, "length": 2}, "new_range": {"start": 5, "length": 2}, "section": ""},
        "line_group": {"all_lines": lines},
    }

    def changed(path: str) -> dict[str, Any]:
        header = {"file": {"path": path}, "misc_line": None}
        ends = {"minus_file": {"path": f"a/{path}"}, "plus_file": {"path": f"b/{path}"}}
        return {"header": header, "index_line": None, "is_binary_file": False, **ends, "hunks": [hunk]}

    commit = {"file_diffs": [changed(path) for path in ("shapes/areas.py", "tests/test_areas.py", "CHANGES.rst")]}
    outcomes = {"test_triangle": "PASSED", "TestSquare.test_square": "PASSED", "test_later[a.b]": "FAILED"}
    row = {
        "repo_name": "shapes",
        "docker_image": "namanjain12/shapes_final:0a1b2c3d",
        "commit_hash": "0a1b2c3d",
        "parsed_commit_content": json.dumps(commit),
        "execution_result_content": "{}",
        "modified_files": ["shapes/areas.py"],
        "relevant_files": [],
        "num_non_test_lines": 2,
        "prompt": "",
        "problem_statement": "\n[ISSUE]\nThe area of a triangle is twice as large as it should be.\n[/ISSUE]\n",
        "expected_output_json": json.dumps(outcomes),
    }
    return row | changes


def secret_of(row: dict[str, Any]) -> SweSecret:
    secret = make_task("one", Row(row, "rows.jsonl", 1, 0)).secret
    assert isinstance(secret, SweSecret)
    return secret


# --- what is read ---------------------------------------------------------------------------------------------------


def test_a_row_is_known_by_its_columns() -> None:
    for row, name in ((swe_rebench(), "SWE-rebench"), (swe_smith(), "SWE-smith"), (r2e_gym(), "R2E-Gym")):
        assert format_of(Row(row, "rows.jsonl", 1, 0)).name == name
    plain = {"image_name": "lab/one:1", "patch": PATCH, "test_files": {"tests/test_a.py": ""}}
    assert format_of(Row(plain, "rows.jsonl", 1, 0)).name == "SWE-bench"


def test_swe_rebench_names_its_image_and_command() -> None:
    secret = secret_of(swe_rebench())
    assert (secret.image, secret.repository) == ("swerebench/sweb.eval.x86_64.lab_1776_shapes-1", "/testbed")
    assert secret.test_command.startswith("pytest --no-header")
    assert "conda activate testbed" in secret.prelude
    second = secret_of(
        swe_rebench(
            docker_image=None,
            image_name="swerebenchv2/lab-shapes:1",
            install_config={"log_parser": "parse_log_pytest", "test_cmd": ["export A=1", "pytest -rA"]},
        )
    )
    assert (second.image, second.repository) == ("swerebenchv2/lab-shapes:1", "/shapes")
    assert second.prelude.endswith("\nexport A=1")
    assert second.test_command == "pytest -rA"


def test_swe_smith_puts_the_bug_in_and_takes_it_back() -> None:
    secret = secret_of(swe_smith())
    assert (secret.bug, secret.patch, secret.is_reversed) == (BUG, BUG, True)
    assert (secret.withheld, secret.own_tests) == (("tests/test_triangle.py",), ("tests/test_square.py",))
    assert secret.test_command == "pytest --disable-warnings --color=no --tb=no --verbose"
    older = secret_of(swe_smith(image_name="swesmith.x86_64.mido__mido.a0158ff9", repo="swesmith/mido__mido.a0158ff9"))
    assert older.image == "jyangballin/swesmith.x86_64.mido_1776_mido.a0158ff9"
    assert older.test_command.endswith("-c /dev/null")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_bug_that_is_put_in_by_guessing_its_place_leaves_no_copy_of_the_repaired_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(agent_image, "_WORK", str(tmp_path / "work"))
    other_place = BUG.replace("@@ -5,2 +5,2 @@\n", "@@ -5,3 +5,3 @@\n # other words\n")
    secret = secret_of(swe_smith(patch=other_place))
    repository = tmp_path / "repository"
    (repository / "shapes").mkdir(parents=True)
    (repository / "shapes" / "areas.py").write_text(REPAIRED.replace("\n\n\n", "\n\n# words\n"))
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    image = agent_image.agent_image(secret.model_copy(update={"repository": str(repository)}))
    assert isinstance(image, Build)
    shutil.copytree(image.context, tmp_path / "work")
    subprocess.run(["/bin/sh", "-e", str(tmp_path / "work" / "prepare.sh")], check=True, capture_output=True)
    found = [path for path in repository.rglob("*") if path.is_file() and ".git" not in path.parts]
    assert [str(path.relative_to(repository)) for path in found] == ["shapes/areas.py"]
    assert "base * height / 2" not in found[0].read_text()


def test_r2e_gym_says_how_each_test_ends() -> None:
    task = make_task("one", Row(r2e_gym(), "rows.jsonl", 1, 0))
    secret = secret_of(r2e_gym())
    assert secret.outcomes == {
        "test_triangle": "PASSED",
        "TestSquare.test_square": "PASSED",
        "test_later[a.b]": "FAILED",
    }
    assert secret.patch == "diff --git a/shapes/areas.py b/shapes/areas.py\n" + PATCH
    assert str(task.public.prompt).endswith("\n\nThe area of a triangle is twice as large as it should be.")


@pytest.mark.parametrize("make", [swe_rebench, swe_smith, r2e_gym])
def test_columns_that_are_not_read_are_carried_in_the_secret(make: Callable[..., dict[str, Any]]) -> None:
    row = make(lab_note="carried as it is", difficulty=None)
    task = make_task("one", Row(row, "rows.jsonl", 1, 0))
    carried = secret_of(row).carried
    read = set(format_of(Row(row, "rows.jsonl", 1, 0)).columns)
    assert carried["lab_note"] == "carried as it is"
    assert {column for column, value in row.items() if value is not None} == (carried.keys() | read) & row.keys() - {
        column for column, value in row.items() if value is None
    }
    assert "carried as it is" not in task.public.model_dump_json()
    if make is swe_rebench:
        assert carried["install_config"] == {
            key: value for key, value in row["install_config"].items() if key not in ("log_parser", "test_cmd")
        }


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (swe_rebench(docker_image=None), "'docker_image' and 'image_name' are empty"),
        (swe_rebench(docker_image=None, image_name="a:1", repo="lab/.."), "column 'repo' = 'lab/..'"),
        (swe_rebench(install_config="none"), "column 'install_config' must be values by name"),
        (swe_rebench(install_config={"log_parser": "parse_log_gotest"}), "log_parser = 'parse_log_gotest'"),
        (
            swe_rebench(install_config={"log_parser": "parse_log_pytest", "test_cmd": "make test"}),
            "test_cmd = ['make test']; its last command must be pytest's",
        ),
        (
            swe_rebench(install_config={"log_parser": "parse_log_pytest", "test_cmd": [1]}),
            "test_cmd = [1]; it must be a command or a list of them",
        ),
        (swe_rebench(test_patch=None), "column 'test_patch' must be text"),
        (swe_smith(FAIL_TO_PASS=["TestArea/empty"]), "column 'FAIL_TO_PASS': 'TestArea/empty' is no test of pytest"),
        (swe_smith(PASS_TO_PASS=["../a.py::test_b"]), "column 'PASS_TO_PASS': '../a.py::test_b' is no test of pytest"),
        (swe_smith(PASS_TO_PASS=["--rootdir=/a.py::test_b"]), "column 'PASS_TO_PASS'"),
        (swe_smith(image_name="a:1\nRUN id"), "column 'image_name' = 'a:1\\nRUN id': there is white space in it"),
        (swe_smith(problem_statement=""), "column 'problem_statement' must be text"),
        (r2e_gym(repo_name="tornado"), "column 'repo_name' = 'tornado'"),
        (r2e_gym(expected_output_json="[]"), "column 'expected_output_json' must be values by name"),
        (r2e_gym(expected_output_json='{"a": "GONE"}'), "must hold PASSED, FAILED or ERROR"),
        (r2e_gym(expected_output_json='{"a": "FAILED"}'), "and one PASSED"),
        (r2e_gym(expected_output_json='{"a": "PASSED", "b": ["PASSED"]}'), "must hold PASSED, FAILED or ERROR"),
        (r2e_gym(docker_image=None), "column 'docker_image' must be text"),
        (r2e_gym(parsed_commit_content='{"file_diffs": [{}]}'), "column 'parsed_commit_content' does not describe"),
        (
            {
                "repo": "lab/a",
                "instance_id": "a",
                "image": "a:1",
                "problem_statement": "x",
                "before_repo_set_cmd": "ls",
            },
            "column 'before_repo_set_cmd' runs the tests in a way of its own",
        ),
    ],
)
def test_a_row_that_cannot_be_played_is_refused_by_its_field(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=r"rows\.jsonl:1") as error:
        make_task("one", Row(row, "rows.jsonl", 1, 0))
    assert reason in str(error.value)


def test_rows_of_all_formats_have_their_own_ids(tmp_path: Path) -> None:
    rows = [swe_rebench(), swe_smith(), r2e_gym()]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks = [*Swe.tasks(SweConfig(data=str(tmp_path / "rows.jsonl")), "test", 0)]
    ids = [None if isinstance(task, BadRow) else task.id for task in tasks]
    assert ids == ["lab__shapes-1", "lab__shapes.0a1b2c3d.func_basic__abcdefgh", "0a1b2c3d"]


def test_the_docs_name_each_format_and_each_column_that_is_read() -> None:
    written = DOCS.read_text().partition("## `swe`")[2]
    for each in FORMATS:
        assert each.name in written
        for column in each.columns:
            assert f"`{column}`" in written or column.isupper() or column in ("fail_to_pass", "pass_to_pass"), column


def test_outcomes_are_read_by_their_names_without_modules() -> None:
    report = b"""<testsuite>
    <testcase classname="r2e_tests.test_1.TestA" name="test_b[x::y]"/>
    <testcase classname="r2e_tests.test_1" name="test_c"/>
    <testcase classname="r2e_tests.test_2" name="test_c"><failure/></testcase>
    <testcase classname="r2e_tests.test_1" name="test_d"><error/></testcase>
    <testcase classname="r2e_tests.test_1" name="test_e"><skipped type="pytest.xfail"/></testcase>
    <testcase classname="" name="r2e_tests.test_3"><error/></testcase>
    </testsuite>"""
    found = {"TestA.test_b[x.y]": "PASSED", "test_c": "FAILED", "test_d": "ERROR", "": "ERROR"}
    assert outcomes_of(report) == found
    assert outcomes_of(report[:40]) == {}
    assert exports({"A": "b c"}) == "export A='b c'"


# --- in containers --------------------------------------------------------------------------------------------------

SMITH, R2E = "rollouthub-test/swe-smith:1", "rollouthub-test/r2e-gym:1"
COMMIT = "git add -A && git -c user.name=a -c user.email=a@b.c commit -qm"
SMITH_FILE = f"""\
FROM {PUBLISHED}
WORKDIR /testbed
COPY . /testbed
RUN rm Dockerfile && {COMMIT} repaired && git tag v1.0
"""
R2E_FILE = f"""\
FROM {PUBLISHED}
WORKDIR /testbed
COPY r2e_tests /r2e_tests
COPY repaired.py shapes/areas.py
RUN {COMMIT} repaired && git branch later && git checkout -q HEAD~1 \\
 && mkdir -p .venv/bin && ln -s $(command -v python3) .venv/bin/python
COPY run_tests.sh expected_test_output.json /testbed/
"""
RUN_TESTS = "PYTHONWARNINGS='ignore::UserWarning' .venv/bin/python -W ignore -m pytest -rA r2e_tests\n"
LATER = "import pytest\n@pytest.mark.parametrize('name', ['a::b'])\ndef test_later(name): assert not name\n"

PLANT = """\
printf 'import pytest\\n@pytest.hookimpl(wrapper=True)\\ndef pytest_runtest_makereport(item, call):\\n\
    report = yield\\n    report.outcome = "passed"\\n    return report\\n' > conftest.py
cp conftest.py tests/conftest.py
mkdir -p r2e_tests; cp conftest.py r2e_tests/; cp conftest.py .venv/ 2>/dev/null || true
printf 'def test_triangle(): pass\\n' | tee tests/test_triangle.py > r2e_tests/test_1.py
printf 'exit 0\\n' > run_tests.sh
printf '{"test_triangle": "FAILED"}' > expected_test_output.json
printf '[pytest]\\naddopts = --collect-only\\n' > pytest.ini
printf '#!/bin/sh\\nexit 0\\n' > /tmp/python; chmod +x /tmp/python; mkdir -p .venv/bin; cp /tmp/python .venv/bin/python
printf 'raise SystemExit(0)\\n' > pytest.py
"""
"""What would have the tests pass, if it crossed."""


@pytest.fixture(scope="session")
def images_of(published_image: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What stands in for an image of each format."""
    tests = {"tests/test_triangle.py": TRIANGLE, "tests/test_square.py": SQUARE}
    smith = {"shapes/areas.py": REPAIRED, **tests, "Dockerfile": SMITH_FILE}
    hidden = {"test_1.py": TRIANGLE, "test_2.py": SQUARE, "test_3.py": LATER}
    r2e = {f"r2e_tests/{name}": text for name, text in hidden.items()} | {"repaired.py": REPAIRED}
    r2e |= {"run_tests.sh": RUN_TESTS, "expected_test_output.json": f'"{CANARY}"', "Dockerfile": R2E_FILE}
    return {
        "swe_rebench": published_image,
        "swe_smith": build(tmp_path_factory.mktemp("smith"), smith, SMITH),
        "r2e_gym": build(tmp_path_factory.mktemp("r2e"), r2e, R2E),
    }


@pytest.fixture(
    params=[pytest.param(swe_rebench, marks=pytest.mark.soak), swe_smith, r2e_gym], ids=lambda make: make.__name__
)
def config(
    request: pytest.FixtureRequest, images_of: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SweConfig:
    """A row of each format, whose image is there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    column = "image_name" if request.param is swe_smith else "docker_image"
    row = request.param(**{column: images_of[request.param.__name__]})
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    return SweConfig(data=str(tmp_path / "rows.jsonl"))


async def test_the_known_patch_solves_it_and_nothing_and_another_do_not(play: Open, config: SweConfig) -> None:
    async with play(Swe, config) as player:
        assert "def triangle" in await player.bash("cat shapes/areas.py && python -c 'import shapes'")
        await player.play_reference()
        score = await player.end()
    assert score.reward == 1.0, score.feedback
    for command in ("true", "sed -i 's|return base . height|return base * height / 3|' shapes/areas.py"):
        async with play(Swe, config) as player:
            assert "exit status 0" in await player.bash(command)
            score = await player.end()
        assert score.reward == 0.0
        assert score.feedback is not None
        assert score.feedback.startswith("not passed: "), score.feedback
        assert "test_square" not in score.feedback.splitlines()[0]


async def test_neither_the_answer_nor_the_tests_are_there_for_the_agent(
    play: Open, config: SweConfig, request: pytest.FixtureRequest
) -> None:
    is_tagged = "swe_smith" in request.node.name
    async with play(Swe, config) as player:
        history = await player.bash("git log --all --reflog -p; git fsck --lost-found; git stash list; git tag")
        assert "height / 2" not in history
        assert ("v1.0" in history) is is_tagged, "a package may ask git for its version"
        assert "repaired" not in history
        found = await player.bash(f"grep -rlE '{CANARY}|height / 2' / --exclude-dir=proc --exclude-dir=sys; ls -a / .")
        assert "/areas.py" not in found
        for name in ("r2e_tests", "run_tests.sh", "expected_test_output.json", "test_triangle.py"):
            assert name not in found, found


async def test_an_agent_that_plants_tests_and_runners_gains_nothing(play: Open, config: SweConfig) -> None:
    async with play(Swe, config) as player:
        assert "exit status 0" in await player.bash(PLANT)
        score = await player.end()
    assert score.reward == 0.0
    assert score.feedback is not None
    assert "held back" in score.feedback
    assert score.metrics["changed_files"] <= 1, score.feedback  # a file of results, which is read in no other format
