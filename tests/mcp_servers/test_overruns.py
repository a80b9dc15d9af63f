"""Tests that go over the bounds of their own sandbox: by the agent's work that is its 0, by themselves nobody's."""

import shlex
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from anyio.lowlevel import checkpoint

from rollouthub import Submission
from rollouthub.errors import SandboxError, SandboxOverrun, VerifierError
from rollouthub_sandboxes.engine.engine import Engine, EngineError, connect_engine
from rollouthub_sandboxes.engine.labels import RUN
from rollouthub_servers.swe import Swe
from rollouthub_servers.terminal import Terminal, TerminalConfig
from rollouthub_servers.terminal.timeouts import MOST_RUNS
from tests.mcp_servers.containers import USES_UP_MEMORY, Open, Player
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


SLEEPERS = "for i in $(seq 50); do sleep 1000 & done"


@asynccontextmanager
async def silenced(play: Open, folder: Path, command: str) -> AsyncGenerator[Player]:
    """An agent that left something running in a container whose supervisor then does not answer."""
    config = task(folder, REWARD).model_copy(update={"pids": 64})
    async with play(Terminal, config, close_seconds=1) as player, connect_engine() as engine:
        await player.bash(f"({command}) > /dev/null 2>&1")
        await engine.call(engine.api.kill, player.episode.environment.sandbox.id, "STOP")
        yield player


async def test_who_used_up_a_container_that_cannot_be_sealed_scores_nothing(play: Open, tmp_path: Path) -> None:
    async with silenced(play, tmp_path, SLEEPERS) as player:
        score = await player.episode.conclude(Submission())
    assert score is not None
    assert score.reward == 0.0
    assert [(fault.boundary, fault.type) for fault in player.episode.faults] == [("agent", "SandboxOverrun")]
    assert "used up its processes" in (score.feedback or "")


async def test_who_used_up_a_container_with_a_call_in_flight_scores_nothing(play: Open, tmp_path: Path) -> None:
    async with silenced(play, tmp_path, SLEEPERS) as player, anyio.create_task_group() as calls:
        calls.start_soon(player.bash, "true")
        await anyio.wait_all_tasks_blocked()
        score = await player.episode.conclude(Submission())
        assert score is not None
        assert score.reward == 0.0
    assert {(fault.boundary, fault.type) for fault in player.episode.faults} == {("agent", "SandboxOverrun")}


async def test_a_container_that_cannot_be_sealed_below_its_bounds_is_nobodys_zero(play: Open, tmp_path: Path) -> None:
    async with silenced(play, tmp_path, "true") as player:
        assert await player.episode.conclude(Submission()) is None
    assert [(fault.boundary, fault.type) for fault in player.episode.faults] == [("sandbox", "SandboxError")]


@asynccontextmanager
async def breaking_graders(player: Player, how: str) -> AsyncGenerator[None]:
    """Kill or pause each container with the agent's work in it that starts, from outside."""
    own = player.episode.environment.sandbox.id
    run = own.split("-")[1]

    async def break_them(engine: Engine) -> None:
        image = (await engine.call_again(engine.api.inspect_container, own))["Image"]
        while True:
            for found in await engine.call_again(engine.api.containers, filters={"label": [f"{RUN}={run}"]}):
                if found["ImageID"] != image:
                    with suppress(EngineError):
                        await engine.call(getattr(engine.api, how), found["Id"])
            await checkpoint()

    async with connect_engine() as engine, anyio.create_task_group() as group:
        group.start_soon(break_them, engine)
        yield
        group.cancel_scope.cancel()


async def test_tests_whose_containers_fail_twice_are_nobodys_zero(play: Open, tmp_path: Path) -> None:
    async with play(Terminal, task(tmp_path, f"sleep 2; {REWARD}")) as player, breaking_graders(player, "kill"):
        with pytest.raises(SandboxError) as caught:
            await player.episode.conclude(Submission())
    assert not isinstance(caught.value, SandboxOverrun)
    assert caught.value.retryable


async def test_an_engine_that_is_slow_with_every_container_is_nobodys_zero(
    play: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollouthub_servers.terminal.timeouts.AROUND_TESTS", 0.01 - MOST_RUNS * 60)
    async with play(Terminal, task(tmp_path, REWARD)) as player:
        await player.bash("touch work")
        with pytest.raises(VerifierError, match="an untouched container's took longer") as caught:
            await player.end()
    assert caught.value.retryable


async def test_work_that_takes_all_the_time_where_untouched_containers_do_not_scores_nothing(
    play: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollouthub_servers.terminal.timeouts.AROUND_TESTS", 6 - MOST_RUNS * 60)
    monkeypatch.setattr("rollouthub_servers.terminal.grader._QUICK", 0.9)
    async with play(Terminal, task(tmp_path, f"sleep 1; {REWARD}")) as player:
        await player.bash("touch work")
        async with breaking_graders(player, "pause"):
            score = await player.end()
    assert score.reward == 0.0
    assert "paths that the agent left could not be graded within 6 s" in (score.feedback or "")


async def test_the_time_in_which_the_tests_own_image_is_built_is_not_the_agents(
    play: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollouthub_servers.terminal.timeouts.AROUND_TESTS", 10 - MOST_RUNS * 60)
    config = task(tmp_path, REWARD, 'environment_mode = "separate"\n')
    lines = ["FROM debian:bookworm-slim", f"RUN sleep 12 # {uuid4()}", "COPY test.sh /tests/"]
    (tmp_path / "tests" / "Dockerfile").write_text("\n".join(lines) + "\n")
    async with play(Terminal, config) as player:
        await player.bash("touch work")
        assert (await player.end()).reward == 1.0


async def test_more_files_than_can_be_graded_score_nothing(
    play: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rollouthub_servers.terminal.grader.MOST_CHANGED", 100)
    async with play(Terminal, task(tmp_path, REWARD)) as player:
        await player.bash("mkdir many; cd many; seq 100 | xargs touch")
        score = await player.end()
    assert score.reward == 0.0
    assert "paths are changed, more than 100" in (score.feedback or "")
