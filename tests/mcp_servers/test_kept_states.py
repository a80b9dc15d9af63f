"""What an agent changed in its container is kept, and a fresh container with the same changes is graded the same."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rollouthub.errors import AgentError
from rollouthub.sandbox import folders_above
from rollouthub.score import STATE, UNKEEPABLE, Submission
from rollouthub.store import open_run
from rollouthub_servers.swe import Swe
from rollouthub_servers.swe.final_diff import DIFF
from rollouthub_servers.terminal import Terminal, TerminalConfig
from tests.mcp_servers.containers import TASKS, Open, Player
from tests.mcp_servers.swe.test_swe import rows

SOLVED = {
    "solved": "sed -i 's/return base \\* height$/return base * height \\/ 2/' shapes/areas.py",
    "removed": "rm shapes/areas.py && mkdir shapes/new && echo x > shapes/new/file && chmod 755 shapes/new/file",
    "replaced": "rm -r shapes && echo 'a file now' > shapes",
    "nothing": "true",
}


def kept(player: Player) -> dict[str, bytes]:
    return {artifact.ref.name: artifact.data for artifact in player.episode.artifacts}


def state_of(player: Player) -> Any:
    return json.loads(kept(player)[STATE])


SOAK = pytest.mark.soak
"""Of the ways to leave a container, those that are not needed each time."""


@pytest.mark.parametrize(
    "left", ["solved", "replaced", *(pytest.param(name, marks=SOAK) for name in ("removed", "nothing"))]
)
async def test_a_repository_is_graded_the_same_again(play: Open, tmp_path: Path, left: str) -> None:
    config = rows(tmp_path)
    async with play(Swe, config) as player:
        await player.bash(SOLVED[left])
        score = await player.end()
        state = state_of(player)
    assert score.reward == (left == "solved")
    async with play(Swe, config, state=state) as player:
        again = await player.end()
        assert state_of(player) == state
    assert again == score


@pytest.mark.parametrize(
    "name", ["two_steps", *(pytest.param(name, marks=SOAK) for name in ("greeting", "many_rewards"))]
)
@pytest.mark.parametrize("is_solved", [True, pytest.param(False, marks=SOAK)])
async def test_a_container_is_graded_the_same_again(play: Open, name: str, is_solved: bool) -> None:
    config = TerminalConfig(data=str(TASKS / name))
    async with play(Terminal, config) as player:
        if is_solved:
            await player.play_reference()
        score = await player.end()
        state = state_of(player)
    async with play(Terminal, config, state=state) as player:
        again = await player.end()
    assert again == score


async def test_the_same_actions_after_a_restore_come_to_the_same(play: Open, tmp_path: Path) -> None:
    config = rows(tmp_path)
    async with play(Swe, config) as player:
        await player.bash("echo one > notes; rm shapes/__init__.py")
        state = await player.episode.snapshot()
        on = await player.bash("echo two >> notes; cat notes; ls shapes")
        score = await player.end()
    async with play(Swe, config, state=state) as player:
        assert await player.bash("echo two >> notes; cat notes; ls shapes") == on
        assert await player.end() == score


@pytest.mark.parametrize("name", ["swe", pytest.param("terminal", marks=SOAK)])
def test_a_run_that_is_scored_again_has_the_same_scores(
    images: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setenv("ROLLOUTHUB_IMAGES", images)
    data = rows(tmp_path).data if name == "swe" else str(TASKS / "many_rewards")
    played = ["run", name, "--set", f"data={data}", "-a", "oracle", "--repeats", "2", "--no-track", "-o", "run"]
    for words in (played, ["score", "run", "-o", "again"]):
        command = [Path(sys.executable).parent / "hub", *words, "--quiet"]
        subprocess.run(command, cwd=tmp_path, check=True)
    with open_run(tmp_path / "run") as run, open_run(tmp_path / "again") as again:
        before, after = ({each.rollout_id: each.score for each in reader.rollouts()} for reader in (run, again))
    assert len(before) == 2
    assert all(score is not None and score.reward == 1.0 for score in before.values())
    assert after == before


EDITS = """\
sed -i 's/return base \\* height$/return base * height \\/ 2/' shapes/areas.py
rm shapes/__init__.py; printf 'a\\0b' > binary; printf 'a\\r\\n' > ends
printf '* text eol=crlf\\n*.py -diff\\n' > .gitattributes
printf '#!/bin/sh\\n' > './-n m'; chmod 755 './-n m'; echo ignored > ignored; echo ignored > .gitignore
mkdir tests/x; echo hidden > tests/x/test_y.py; git config core.fsmonitor /bin/false; git add -A; git commit -qm x
"""


@pytest.mark.parametrize("edits", [EDITS, pytest.param("rm -r shapes; echo a file > shapes", marks=SOAK)])
async def test_what_is_graded_is_kept_as_a_patch_that_makes_it_again(play: Open, tmp_path: Path, edits: str) -> None:
    config = rows(tmp_path)
    files = "find . -path ./.git -prune -o -path ./tests -prune -o -type f -exec md5sum {} + | sort -k 2"
    look = f"{files}; ls -l --time-style=+ ./-n*"
    async with play(Swe, config) as player:
        await player.bash(edits)
        there = (await player.bash(look)).split("ls:")[0]
        score = await player.end()
        patch = kept(player)[DIFF]
    assert b"hidden" not in patch
    async with play(Swe, config) as player:
        sandbox = player.episode.environment.sandbox
        await sandbox.write_file("/tmp/final.diff", patch)
        assert "exit status 0" in await player.bash("git apply --whitespace=nowarn /tmp/final.diff")
        assert (await player.bash(look)).split("ls:")[0] == there
        again = await player.end()
        assert (again.reward, again.metrics["changed_files"]) == (score.reward, score.metrics["changed_files"])
        assert kept(player)[DIFF] == patch


LINKED = {
    "out": "ln -s / root; ln -s /etc/passwd link; ln -s nowhere dangling; ln -s '-n' ./-n",
    "folder": "cp -r shapes /tmp/moved && rm -r shapes && ln -s /tmp/moved shapes && touch shapes/new",
}


@SOAK
@pytest.mark.parametrize("left", ["folder", "out"])
async def test_links_are_kept_as_links_and_graded_the_same_again(play: Open, tmp_path: Path, left: str) -> None:
    """An agent that links would otherwise never be scored again, whatever it did."""
    config = rows(tmp_path)
    async with play(Swe, config) as player:
        await player.bash(f"{SOLVED['solved']}; {LINKED[left]}")
        listed = await player.bash("ls -lR . /tmp --time-style=+")
        score = await player.end()
        state = state_of(player)
    assert state["links"]
    async with play(Swe, config, state=state) as player:
        assert await player.bash("ls -lR . /tmp --time-style=+") == listed
        again = await player.end()
        assert state_of(player) == state
    assert again == score


async def test_no_file_of_a_state_is_written_through_a_link_of_it(play: Open, tmp_path: Path) -> None:
    """A state that was made by hand: its files come before its links, and folders take the place of links."""
    config = rows(tmp_path)
    async with play(Swe, config) as player:
        await player.bash("ln -s /tmp/elsewhere away; mkdir /tmp/elsewhere; echo kept > /tmp/elsewhere/file")
        await player.end()
        state = state_of(player)
    (away,) = state["links"]
    state["folders"].append(f"{away}/below")
    async with play(Swe, config, state=state) as player:
        assert (await player.bash("ls /tmp/elsewhere; cat /tmp/elsewhere/file")).split()[:2] == ["file", "kept"]


async def test_what_cannot_be_kept_changes_no_score_and_is_the_agents(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path)) as player:
        await player.bash(f"mkfifo pipe; {SOLVED['solved']}")
        score = await player.end()
        assert kept(player).keys() == {DIFF}
        assert player.episode.missing_artifacts[0].startswith(UNKEEPABLE)
    assert score.reward == 1.0


@pytest.mark.parametrize("broken", ["rm /bin/sh", pytest.param("rm -rf /usr/lib /usr/bin; true", marks=SOAK)])
async def test_a_system_that_the_agent_broke_is_the_agents_or_the_same(play: Open, broken: str) -> None:
    config = TerminalConfig(data=str(TASKS / "greeting"))
    async with play(Terminal, config) as player:
        await player.bash(broken)
        score = await player.episode.conclude(Submission())
        if STATE not in kept(player):
            assert player.episode.missing_artifacts[0].startswith(UNKEEPABLE)
            return
        state = state_of(player)
    assert score is not None
    try:
        async with play(Terminal, config, state=state) as player:
            again = await player.episode.conclude(Submission())
    except AgentError:
        return
    assert again is not None
    assert again == score


async def test_what_is_too_large_is_missing_and_is_no_fault(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path)) as player:
        await player.bash(f"head -c 80000000 /dev/urandom > blob; {SOLVED['solved']}")
        await player.episode.conclude(Submission())
        assert kept(player) == {}
        assert len(player.episode.missing_artifacts) == 2
        assert player.episode.faults == []


async def test_thousands_of_files_cost_little_and_are_not_kept(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path)) as player:
        await player.bash(f"mkdir many; cd many; seq 6000 | xargs touch; cd ..; {SOLVED['solved']}")
        began = time.process_time()
        score = await player.end()
        assert time.process_time() - began < 10  # it grew with the square, and held the loop
        assert "more than 5,000" in player.episode.missing_artifacts[0]
    assert score.reward == 1.0


async def test_a_name_that_cannot_be_said_is_not_kept(play: Open, tmp_path: Path) -> None:
    async with play(Swe, rows(tmp_path)) as player:
        await player.bash("touch $(printf 'a\\377b')")
        await player.end()
        assert kept(player).keys() == {DIFF}
        assert "no name that is kept" in player.episode.missing_artifacts[0]


def test_the_folders_above_deep_paths_are_found_in_little_time() -> None:
    deep = "/" + "d/" * 2000
    began = time.process_time()
    assert len(folders_above(f"{deep}{number}" for number in range(20_000))) == 2001
    assert time.process_time() - began < 2
