"""Later steps begin on what an agent left: what keeps them from beginning is the agent's, and calls wait meanwhile."""

from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from rollouthub.errors import TaskError
from rollouthub.messages import assistant
from rollouthub_servers.terminal import Terminal, TerminalConfig
from tests.mcp_servers.breaking import STEP_SCRIPTS
from tests.mcp_servers.containers import Open, Player

WAYS = range(len(STEP_SCRIPTS))
SETUP = "date > /ready\n"
HEALTHY = "test -f /ready"
TESTS = "[ -e /work/$STEP ]; echo $((! $?)) > /logs/verifier/reward.txt\n"
SETTINGS = """\
[environment]
docker_image = "debian:bookworm-slim"
network_mode = "no-network"
workdir = "/work"
memory_mb = 128
[[steps]]
name = "first"
[steps.verifier]
env = {{ STEP = "one" }}
[[steps]]
name = "second"
[steps.verifier]
env = {{ STEP = "two" }}
[steps.healthcheck]
command = "{healthy}"
interval_sec = 0.1
retries = 2
"""


def steps(folder: Path, setup: str = SETUP, healthy: str = HEALTHY, first: str | None = "touch one") -> TerminalConfig:
    """A task of two steps, the second of which has a `setup.sh` and a health check."""
    files = {
        "task.toml": SETTINGS.format(healthy=healthy),
        "tests/test.sh": TESTS,
        "steps/first/instruction.md": "Make the file one.",
        "steps/second/instruction.md": "Make the file two.",
        "steps/second/workdir/setup.sh": setup,
        "steps/second/solution/solve.sh": "touch two",
    }
    if first is not None:
        files["steps/first/solution/solve.sh"] = first
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return TerminalConfig(data=str(folder))


async def end_step(player: Player) -> bool:
    """End the step; whether another one begins."""
    return await player.episode.seats["agent"].reply((assistant("Done."),)) is not None


@pytest.mark.parametrize("way", [0, 1, *(pytest.param(each, marks=pytest.mark.soak) for each in WAYS[2:])])
async def test_an_agent_that_keeps_a_later_step_from_beginning_gets_nothing_for_it(
    play: Open, tmp_path: Path, way: int
) -> None:
    async with play(Terminal, steps(tmp_path)) as player:
        await player.bash("touch one")
        await player.bash(STEP_SCRIPTS[way])
        assert not await end_step(player)
        score = await player.end()
    assert score.components["second"].value == 0.0
    assert score.reward <= 0.5
    assert "though it can on the image" in (score.feedback or "")


@pytest.mark.soak
async def test_a_step_that_needs_the_one_before_it_is_the_agents_who_left_that_undone(
    play: Open, tmp_path: Path
) -> None:
    config = steps(tmp_path, setup="mv one /ready\n")
    async with play(Terminal, config) as player:
        assert not await end_step(player)
        assert (await player.end()).reward == 0.0
    async with play(Terminal, config) as player:
        await player.bash("touch one")
        assert await end_step(player)


@pytest.mark.soak
@pytest.mark.parametrize(("setup", "healthy"), [("exit 1\n", HEALTHY), (SETUP, "false")])
async def test_a_step_that_never_begins_is_a_fault_that_no_other_try_mends(
    play: Open, tmp_path: Path, setup: str, healthy: str
) -> None:
    async with play(Terminal, steps(tmp_path, setup, healthy)) as player:
        with pytest.raises(TaskError, match="does not begin on its image either") as caught:
            await end_step(player)
    assert not caught.value.retryable


async def test_no_call_is_taken_while_a_step_is_graded(play: Open, tmp_path: Path) -> None:
    """A snapshot is listed first and kept then: what is written in between would be in no list."""
    said: list[str] = []
    async with play(Terminal, steps(tmp_path)) as player:
        await player.bash("touch one")

        async def keep_calling(scope: anyio.CancelScope) -> None:
            with scope:
                while True:
                    said.append(await player.bash("sleep 0.1; echo ran"))
                    await checkpoint()

        async with anyio.create_task_group() as group:
            scope = anyio.CancelScope()
            group.start_soon(keep_calling, scope)
            assert await end_step(player)
            scope.cancel()
        assert any("is being graded" in each for each in said)
        assert "ran" in await player.bash("echo ran")


def test_a_step_without_a_solution_is_known_before_anything_is_played(tmp_path: Path) -> None:
    def is_solved(config: TerminalConfig) -> bool:
        (task,) = Terminal.tasks(config, "test", 0)
        return Terminal.has_reference(task)  # pyright: ignore[reportArgumentType]  # none of them is a bad row

    assert is_solved(steps(tmp_path / "all"))
    one_lacks = steps(tmp_path / "one", first=None)
    assert not is_solved(one_lacks)
    (tmp_path / "one" / "solution").mkdir()
    (tmp_path / "one" / "solution" / "solve.sh").write_text("touch one")
    assert is_solved(one_lacks), "the task's own solution counts for each step"
