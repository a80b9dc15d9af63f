"""Tests that go over the bounds of their own sandbox: by the agent's work that is its 0, by themselves nobody's."""

import shlex
from pathlib import Path

import pytest

from envhub.errors import VerifierError
from envhub_servers.swe import Swe
from envhub_servers.terminal import Terminal, TerminalConfig
from tests.mcp_servers.containers import USES_UP_MEMORY, Open
from tests.mcp_servers.swe.test_swe import HIDDEN, rows

REWARD = "echo 1 > /logs/verifier/reward.txt\n"
OVERRUN = "used up its memory"
PLACES = [
    pytest.param("", id="fresh"),
    pytest.param('environment_mode = "shared"\n', id="in place", marks=pytest.mark.soak),
]


def task(folder: Path, tests: str, verifier: str = "") -> TerminalConfig:
    for path, text in {
        "instruction.md": "Work.",
        "tests/test.sh": tests,
        "task.toml": (
            '[environment]\ndocker_image = "debian:bookworm-slim"\nnetwork_mode = "no-network"\nmemory_mb = 64\n'
            f"[verifier]\ntimeout_sec = 60\n{verifier}"
        ),
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return TerminalConfig(data=str(folder))


@pytest.mark.parametrize("verifier", PLACES)
async def test_work_that_has_tests_go_over_their_bounds_scores_nothing(
    play: Open, tmp_path: Path, verifier: str
) -> None:
    config = task(tmp_path, f"[ ! -e /work.sh ] || sh /work.sh\n{REWARD}", verifier)
    async with play(Terminal, config) as player:
        await player.call("write_file", path="/work.sh", content=USES_UP_MEMORY)
        score = await player.end()
    assert (score.reward, score.passed) == (0.0, False)
    assert OVERRUN in (score.feedback or "")


@pytest.mark.parametrize("verifier", PLACES)
async def test_tests_that_go_over_their_bounds_on_the_image_too_are_a_fault(
    play: Open, tmp_path: Path, verifier: str
) -> None:
    async with play(Terminal, task(tmp_path, f"{USES_UP_MEMORY}\n{REWARD}", verifier)) as player:
        with pytest.raises(VerifierError, match=OVERRUN) as caught:
            await player.end()
    assert not caught.value.retryable


HOOK = '[[verifier.collect]]\ncommand = "sh /hook.sh"\n'


async def test_work_that_has_collect_hooks_go_over_their_bounds_scores_nothing(play: Open, tmp_path: Path) -> None:
    async with play(Terminal, task(tmp_path, REWARD, HOOK)) as player:
        await player.call("write_file", path="/hook.sh", content=USES_UP_MEMORY)
        score = await player.end()
    assert (score.reward, score.metadata["crossed"]) == (0.0, "collect hooks")
    assert OVERRUN in (score.feedback or "")


async def test_work_that_keeps_collect_hooks_from_starting_scores_nothing(play: Open, tmp_path: Path) -> None:
    async with play(Terminal, task(tmp_path, REWARD, HOOK)) as player:
        await player.bash("rm -f /bin/sh")
        score = await player.end()
    assert (score.reward, score.metadata["crossed"]) == (0.0, "collect hooks")


async def test_collect_hooks_that_go_over_their_bounds_on_the_image_too_are_a_fault(play: Open, tmp_path: Path) -> None:
    hook = f"[[verifier.collect]]\ncommand = '''{USES_UP_MEMORY}'''\n"
    async with play(Terminal, task(tmp_path, REWARD, hook)) as player:
        with pytest.raises(VerifierError, match=OVERRUN) as caught:
            await player.end()
    assert not caught.value.retryable


async def test_artifacts_that_cannot_be_placed_score_nothing(play: Open, tmp_path: Path) -> None:
    config = task(tmp_path, REWARD, 'environment_mode = "separate"\n')
    (tmp_path / "task.toml").write_text(f'artifacts = ["/etc"]\n{(tmp_path / "task.toml").read_text()}')
    async with play(Terminal, config) as player:
        await player.bash("rm -rf /etc/default; echo > /etc/default")  # a file where the image has a folder
        score = await player.end()
    assert score.reward == 0.0
    assert "could not be run on what the agent left" in (score.feedback or "")


async def test_code_that_has_a_repositorys_tests_go_over_their_bounds_scores_nothing(
    play: Open, tmp_path: Path
) -> None:
    config = rows(tmp_path).model_copy(update={"memory_mb": 64})
    async with play(Swe, config) as player:
        await player.call("write_file", path="shapes/work.sh", content=USES_UP_MEMORY)
        await player.bash("printf 'import os\\nos.system(\"sh /testbed/shapes/work.sh\")\\n' > shapes/__init__.py")
        score = await player.end()
    assert (score.reward, score.passed) == (0.0, False)
    assert OVERRUN in (score.feedback or "")


async def test_a_repositorys_tests_that_go_over_their_bounds_themselves_are_a_fault(play: Open, tmp_path: Path) -> None:
    hungry = f"import os\nos.system('exec sh -c ' + {shlex.quote(USES_UP_MEMORY)!r})\n{HIDDEN}"
    config = rows(tmp_path, test_files={"tests/test_areas.py": hungry}).model_copy(update={"memory_mb": 64})
    async with play(Swe, config) as player:
        with pytest.raises(VerifierError, match=OVERRUN) as caught:
            await player.end()
    assert not caught.value.retryable


@pytest.mark.soak
async def test_a_repositorys_tests_that_hang_on_its_solution_too_are_a_fault(play: Open, tmp_path: Path) -> None:
    slow = f"import time\ntime.sleep(1000)\n{HIDDEN}"
    config = rows(tmp_path, test_files={"tests/test_areas.py": slow}).model_copy(update={"test_seconds": 2})
    async with play(Swe, config) as player:
        with pytest.raises(VerifierError, match="not done after 2 s"):
            await player.end()


@pytest.mark.soak
async def test_code_that_hangs_a_repositorys_tests_scores_nothing(play: Open, tmp_path: Path) -> None:
    config = rows(tmp_path).model_copy(update={"test_seconds": 5})
    async with play(Swe, config) as player:
        await player.bash("echo 'while True: pass' > shapes/__init__.py")
        score = await player.end()
    assert score.reward == 0.0
    assert "not done after 5 s" in (score.feedback or "")
