"""A problem in a repository, solved and attacked in real containers."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import VerifierError
from rollouthub_servers.swe import Swe, SweConfig
from tests.mcp_servers.containers import STAND_INS, Open

REPOSITORY = STAND_INS / "repository"
CANARY = "161803398874989484"
HIDDEN = f"""\
from shapes.areas import square, triangle


def test_square():
    assert square(3) == 9


def test_triangle():
    assert triangle(3, 4) == 6, "{CANARY}"
"""
PATCH = """\
--- a/shapes/areas.py
+++ b/shapes/areas.py
@@ -5,2 +5,2 @@
 def triangle(base, height):
-    return base * height
+    return base * height / 2
"""


def rows(folder: Path, **changes: Any) -> SweConfig:
    shutil.copytree(REPOSITORY, folder / "repository", dirs_exist_ok=True)
    row = {
        "instance_id": "shapes-1",
        "build": "repository",
        "problem_statement": "The area of a triangle is twice as large as it should be.",
        "FAIL_TO_PASS": ["tests/test_areas.py::test_triangle"],
        "PASS_TO_PASS": ["tests/test_areas.py::test_square"],
        "test_files": {"tests/test_areas.py": HIDDEN},
        "patch": PATCH,
    }
    (folder / "rows.jsonl").write_text(json.dumps(row | changes) + "\n")
    return SweConfig(data=str(folder / "rows.jsonl"))


async def test_the_known_patch_solves_it_and_nothing_does_not(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path)) as player:
        assert "repository in /testbed" in await player.call("get_task")
        await player.play_reference()
        score = await player.end()
    assert (score.reward, score.metrics["changed_files"]) == (1.0, 1)
    async with play(Swe, rows(tmp_path)) as player:
        score = await player.end()
    assert score.reward == 0.0
    assert score.metrics["pass_to_pass"] == 1.0
    assert score.metrics["fail_to_pass"] == 0.0


async def test_tests_may_come_as_a_patch_or_run_by_another_command(play: Open, tmp_path: Path) -> None:
    new = "".join(f"+{line}\n" for line in HIDDEN.splitlines())
    patch = f"--- /dev/null\n+++ b/tests/test_more.py\n@@ -0,0 +1,{len(HIDDEN.splitlines())} @@\n{new}"
    tests = {"FAIL_TO_PASS": ["tests/test_more.py::test_triangle"], "PASS_TO_PASS": [], "test_files": None}
    async with play(Swe, rows(tmp_path, **tests, test_patch=patch)) as player:
        await player.play_reference()
        assert (await player.end()).reward == 1.0
    plain = {
        "FAIL_TO_PASS": ["check.py"],
        "PASS_TO_PASS": [],
        "test_files": {"check.py": "from shapes.areas import triangle\nassert triangle(3, 4) == 6\n"},
        "test_command": "PYTHONPATH=. python3 {tests}",
    }
    async with play(Swe, rows(tmp_path, **plain)) as player:
        await player.play_reference()
        assert (await player.end()).reward == 1.0
    async with play(Swe, rows(tmp_path, **plain)) as player:
        assert (await player.end()).reward == 0.0


async def test_what_would_speak_for_the_tests_does_not_cross(play: Open, tmp_path: Path) -> None:
    attacks = (
        "printf 'import os\\ndef pytest_sessionfinish(session, exitstatus):\\n    os._exit(0)\\n' > conftest.py",
        "printf '[tool.pytest.ini_options]\\naddopts = \"--collect-only\"\\n' > pyproject.toml",
        "sed -i 's/assert .*/pass/' tests/test_areas.py; printf 'def test_triangle(): pass\\n' >> tests/test_areas.py",
        "printf '#!/bin/sh\\nexit 0\\n' > /usr/local/bin/python3; chmod +x /usr/local/bin/python3",
    )
    async with play(Swe, rows(tmp_path)) as player:
        for attack in attacks:
            assert "exit status 0" in await player.bash(attack)
        score = await player.end()
    assert score.reward == 0.0
    assert score.metrics["held_back_files"] == 3


async def test_code_that_ends_the_runner_has_failed(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path)) as player:
        await player.bash("printf 'import os\\nos._exit(0)\\n' > shapes/__init__.py")
        score = await player.end()
    assert score.reward == 0.0
    assert score.feedback is not None
    assert "ended before they had all run" in score.feedback


@pytest.mark.parametrize(
    "attack",
    [
        "printf 'import os\\nos._exit(4)\\n' > shapes/__init__.py",
        pytest.param("printf 'import os\\nos._exit(127)\\n' > shapes/__init__.py", marks=pytest.mark.soak),
        pytest.param("rm -rf tests shapes", marks=pytest.mark.soak),
        pytest.param("rm -rf tests; echo > tests", marks=pytest.mark.soak),
        pytest.param("rm -rf shapes; echo > shapes", marks=pytest.mark.soak),
    ],
)
async def test_an_agent_that_keeps_the_tests_from_running_has_failed(play: Open, tmp_path: Path, attack: str) -> None:
    old = (REPOSITORY / "tests" / "test_areas.py").read_text().splitlines()
    new = HIDDEN.splitlines()
    body = "".join([*(f"-{line}\n" for line in old), *(f"+{line}\n" for line in new)])
    patch = f"--- a/tests/test_areas.py\n+++ b/tests/test_areas.py\n@@ -1,{len(old)} +1,{len(new)} @@\n{body}"
    async with play(Swe, rows(tmp_path, test_files=None, test_patch=patch)) as player:
        assert "exit status 0" in await player.bash(attack)
        score = await player.end()
    assert score.reward == 0.0


async def test_a_runner_that_is_planted_beside_the_code_does_not_run(play: Open, tmp_path: Path) -> None:
    fake = "import sys; open(sys.argv[-2].partition('=')[2], 'w').write('<testsuite/>')"
    async with play(Swe, rows(tmp_path)) as player:
        await player.bash(f'echo "{fake}" > pytest.py')
        score = await player.end()
    assert score.metrics["pass_to_pass"] == 1.0
    assert score.metrics["held_back_files"] == 1


@pytest.mark.soak
async def test_a_folder_in_a_files_place_crosses(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path)) as player:
        await player.bash("sed -i 's|base . height|base * height / 2|' shapes/areas.py; mkdir shapes/areas")
        await player.bash("mv shapes/areas.py shapes/areas/__init__.py; mv shapes/areas shapes/areas.py")
        await player.bash(
            'echo \'import sys, importlib.util as u; s = u.spec_from_file_location("shapes.areas", '
            '__path__[0] + "/areas.py/__init__.py"); m = u.module_from_spec(s); '
            's.loader.exec_module(m); sys.modules["shapes.areas"] = m\' > shapes/__init__.py'
        )
        score = await player.end()
    assert score.reward == 1.0


async def test_tests_that_cannot_be_run_on_any_code_are_a_fault(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path, test_command="python3 -m pytest --no-such-option")) as player:
        await player.play_reference()
        with pytest.raises(VerifierError, match="as asked"):
            await player.end()


async def test_the_hidden_tests_are_nowhere_to_be_found(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path)) as player:
        said = await player.bash(f"grep -rl '{CANARY[:-1]}[4]' /testbed /tmp /etc 2>/dev/null; echo searched")
        assert said == "searched\n[exit status 0]"
