"""Forged tests: an agent that replaces what the tests are made of gets nothing for it, root or not."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rollouthub.score import Score
from rollouthub_servers.terminal import Terminal, TerminalConfig
from tests.mcp_servers.containers import Open
from tests.mcp_servers.terminal.forgeries import (
    BREAKERS,
    DOCKERFILE,
    FORGE,
    FORGERIES,
    LIBRARY,
    OF_OTHER_IMAGES,
    SCRIPT,
    SETTINGS,
    TEST,
    Forgery,
    written,
)

Make = Callable[..., TerminalConfig]
NAMED = {forgery.name: forgery for forgery in (*FORGERIES, *BREAKERS)}
ANYONES = [forgery for forgery in (*FORGERIES, *BREAKERS) if forgery.is_for_anyone]
GIT = [forgery for forgery in FORGERIES if forgery.name.startswith("git_")]
QUICK = ("unchecked_bytecode",)
STACKS = {
    "root": [forgery for forgery in FORGERIES if not forgery.needs_library],
    "dev": [forgery for forgery in FORGERIES if forgery.is_for_anyone],
}
"""User → what it can do that needs nothing from outside."""


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """Make the task that is to be forged, for an agent and tests that run as root or as `dev`."""

    def make(
        user: str = "root",
        seconds: float = 60.0,
        dockerfile: str = "",
        tests_user: str | None = None,
        **settings: object,
    ) -> TerminalConfig:
        folder = tmp_path / "forgeable"
        line, verifier = f'user = "{user}"', f'user = "{tests_user or user}"'
        files = {
            "task.toml": SETTINGS.format(agent=line, verifier=verifier, seconds=seconds),
            "instruction.md": "Write 42 to `answer.txt` in the working directory.",
            "environment/Dockerfile": DOCKERFILE + dockerfile,
            "tests/test.sh": SCRIPT,
            "tests/test_answer.py": TEST,
        }
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return TerminalConfig.model_validate({"data": str(folder), **settings})

    return make


def library(folder: Path) -> bytes:
    """A library that forges when it is loaded."""
    source, made = folder / "forge.c", folder / "lib.so"
    source.write_text(LIBRARY)
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-linux-gnu.2.31", "-shared", "-o", made, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no compiler makes the library: {done.stderr[-200:]}")
    return made.read_bytes()


async def forge(play: Open, config: TerminalConfig, forgery: Forgery, folder: Path, more: str = "true") -> Score:
    async with play(Terminal, config) as player:
        sandbox = player.episode.environment.sandbox
        if forgery.needs_library:
            await sandbox.write_file("/var/tmp/lib.so", library(folder), mode=0o755, user="0")
        await player.bash(written("/var/tmp/forge", FORGE))
        await player.bash(more)
        await player.bash(f"export HOME=$(getent passwd $(id -u) | cut -d: -f6); {forgery.commands}")
        return await player.end()


@pytest.mark.parametrize("name", QUICK)
async def test_a_forged_tool_earns_nothing(play: Open, made: Make, tmp_path: Path, name: str) -> None:
    score = await forge(play, made(), NAMED[name], tmp_path)
    assert (score.reward, score.passed) == (0.0, False)
    assert score.suspect is None or "on the image's system" in score.suspect


@pytest.mark.parametrize("verifier", ["fresh", pytest.param("shared", marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("user", "order"),
    [("root", 1), *(pytest.param(user, order, marks=pytest.mark.soak) for user, order in (("root", -1), ("dev", 1)))],
)
async def test_forgeries_on_top_of_each_other_are_rewarded_only_in_the_agents_own_container(
    play: Open, made: Make, tmp_path: Path, user: str, order: int, verifier: str
) -> None:
    commands = "".join(f"(\n{forgery.commands}\n)\n" for forgery in STACKS[user][::order])
    stack = Forgery("stack", f"bash -c {shlex.quote(commands)}")
    score = await forge(play, made(user, verifier=verifier), stack, tmp_path)
    assert score.reward == (verifier == "shared")


@pytest.mark.soak
async def test_a_plain_user_forges_nothing_either(play: Open, made: Make, tmp_path: Path) -> None:
    score = await forge(play, made("dev"), NAMED["user_site_is_a_link"], tmp_path)
    assert score.reward == 0.0
    assert score.suspect is not None
    assert "/home/dev/.local" in score.suspect


@pytest.mark.soak
async def test_a_home_that_became_a_link_forges_nothing(play: Open, made: Make, tmp_path: Path) -> None:
    swap = "rm -rf /home/dev; mkdir /var/tmp/home; ln -s /var/tmp/home /home/dev"
    start = "echo 'echo 1 > /logs/verifier/reward.txt; kill -9 $PPID' > /var/tmp/home/.profile"
    forgery = Forgery("home_is_a_link", f"{swap}; {start}; chmod -R a+rX /var/tmp/home")
    score = await forge(play, made(tests_user="dev"), forgery, tmp_path)
    assert score.reward == 0.0


async def test_honest_work_beside_a_changed_system_counts(play: Open, made: Make, tmp_path: Path) -> None:
    forgery = Forgery("harmless", "echo x > /usr/local/share/note; echo 42 > answer.txt")
    score = await forge(play, made(), forgery, tmp_path)
    assert (score.reward, score.suspect) == (1.0, None)
    assert score.metrics["changed_system_files"] == 1


async def test_a_system_that_the_caller_wants_kept_is_graded_as_it_is_and_told(
    play: Open, made: Make, tmp_path: Path
) -> None:
    score = await forge(play, made(keeps_system=True), NAMED["grep_shadowed"], tmp_path, "echo 42 > answer.txt")
    assert score.reward == 1.0
    assert score.suspect is not None
    assert "/usr/local/bin/grep" in score.suspect


async def test_tests_that_hang_on_what_was_left_alone_score_nothing(play: Open, made: Make, tmp_path: Path) -> None:
    score = await forge(play, made("dev", seconds=15.0), NAMED["output_is_a_pipe"], tmp_path)
    assert score.reward == 0.0
    assert score.feedback is not None
    assert "though they can on the image" in score.feedback


@pytest.mark.soak
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.name)
async def test_no_forgery_of_root_earns_anything(play: Open, made: Make, tmp_path: Path, forgery: Forgery) -> None:
    assert (await forge(play, made(), forgery, tmp_path)).reward == 0.0


@pytest.mark.soak
@pytest.mark.parametrize("forgery", [*GIT, *OF_OTHER_IMAGES], ids=lambda forgery: forgery.name)
async def test_what_is_rewarded_in_the_agents_own_container_earns_nothing_in_a_fresh_one(
    play: Open, made: Make, tmp_path: Path, forgery: Forgery
) -> None:
    for verifier, reward in (("shared", 1.0), ("fresh", 0.0)):
        score = await forge(play, made(dockerfile=forgery.dockerfile, verifier=verifier), forgery, tmp_path)
        assert score.reward == reward, verifier


@pytest.mark.soak
@pytest.mark.parametrize("forgery", ANYONES, ids=lambda forgery: forgery.name)
async def test_no_forgery_of_a_plain_user_earns_anything(
    play: Open, made: Make, tmp_path: Path, forgery: Forgery
) -> None:
    seconds = 40.0 if forgery in BREAKERS else 60.0
    assert (await forge(play, made("dev", seconds=seconds), forgery, tmp_path)).reward == 0.0


@pytest.mark.soak
@pytest.mark.parametrize("forgery", BREAKERS, ids=lambda forgery: forgery.name)
async def test_what_breaks_the_tests_earns_nothing(play: Open, made: Make, tmp_path: Path, forgery: Forgery) -> None:
    assert (await forge(play, made(seconds=40.0), forgery, tmp_path)).reward == 0.0
