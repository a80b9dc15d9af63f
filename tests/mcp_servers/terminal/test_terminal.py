"""The tools of a terminal task, its steps, its time and its users, in real containers."""

import shutil
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import SandboxError, TaskError, VerifierError
from rollouthub.messages import assistant
from rollouthub_servers.terminal import Terminal, TerminalConfig
from tests.mcp_servers.containers import TASKS, Open, Player

GREETING = TerminalConfig(data=str(TASKS / "greeting"))
PRIMES = "printf '%s\\n' 2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 > /app/primes.txt"


async def say_done(player: Player) -> str | None:
    said = await player.episode.seats["agent"].reply((assistant("Done."),))
    return None if said is None else said[0].text


def changed(folder: Path, name: str, old: str, new: str) -> TerminalConfig:
    """A copy of a task with other settings."""
    shutil.copytree(TASKS / name, folder / name)
    settings = folder / name / "task.toml"
    assert old in settings.read_text()
    settings.write_text(settings.read_text().replace(old, new))
    return TerminalConfig(data=str(folder / name))


async def test_a_key_that_a_solution_asks_for_is_in_none_of_its_calls(
    play: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOR_TASKS_KEY", "heron")
    key = changed(tmp_path, "plain_user", 'BIRD = "heron"', 'BIRD = "${HARBOR_TASKS_KEY}"')
    async with play(Terminal, key.model_copy(update={"passes": ("HARBOR_TASKS_KEY",)})) as player:
        assert "heron" not in str(await player.episode.reference())
        await player.play_reference()
        assert (await player.end()).reward == 1.0


@pytest.mark.parametrize(
    ("image", "steps", "said"),
    [
        (
            'docker_image = "127.0.0.1:9/none:1"\n',
            "",
            r"127\.0\.0\.1:9/none:1.*hub images build DIR --tag",
        ),
        ("", "FROM debian:bookworm-slim\nRUN echo no such library >&2; exit 7\n", "no such library"),
    ],
    ids=["pulled", "built"],
)
async def test_an_image_that_cannot_be_had_is_nobodys_zero_and_says_what_to_do(
    play: Open, tmp_path: Path, image: str, steps: str, said: str
) -> None:
    config = changed(tmp_path, "greeting", "[environment]\n", f"[environment]\n{image}")
    if steps:
        (tmp_path / "greeting" / "environment" / "Dockerfile").write_text(steps)
    with pytest.raises(SandboxError, match=f"(?s){said}"):
        async with play(Terminal, config):
            pass


async def test_a_solution_may_take_the_agents_time_and_keeps_what_it_makes(play: Open, tmp_path: Path) -> None:
    shutil.copytree(TASKS / "greeting", tmp_path / "made")
    (tmp_path / "made" / "solution" / "data.txt").write_text("from the solution's folder")
    (tmp_path / "made" / "solution" / "solve.sh").write_text(
        "#!/bin/sh\nsleep 2; cp /solution/data.txt /app/; echo made > /solution/made.txt; readlink /proc/$$/exe\n"
    )
    (tmp_path / "made" / "tests" / "test.sh").write_text(
        "cat /solution/made.txt /solution/data.txt /app/data.txt && echo 1 > /logs/verifier/reward.txt"
    )
    quick = TerminalConfig(data=str(tmp_path / "made"), command_seconds=1, most_command_seconds=1)
    async with play(Terminal, quick) as player:
        assert "stopped after 1 seconds" in await player.bash("sleep 2", timeout_seconds=100)
        await player.play_reference()
        assert (await player.end()).reward == 1.0


async def test_what_runs_in_the_background_ends_with_its_step_where_artifacts_cross_too(play: Open) -> None:
    async with play(Terminal, TerminalConfig(data=str(TASKS / "two_steps"), crossing="artifacts")) as player:
        look = "grep -la 'sleep.98[7]' /proc/[0-9]*/cmdline | wc -l"
        await player.bash("sleep 987 >/dev/null 2>&1 &")
        assert "1\n" in await player.bash(look)
        await say_done(player)
        assert "0\n" in await player.bash(look)


async def test_a_step_that_is_ended_twice_at_once_is_graded_once(play: Open) -> None:
    async with play(Terminal, TerminalConfig(data=str(TASKS / "two_steps"))) as player:
        await player.bash(PRIMES)
        said: list[str | None] = []

        async def end_step() -> None:
            said.append(await say_done(player))

        async with anyio.create_task_group() as group:
            group.start_soon(end_step)
            group.start_soon(end_step)
        assert said.count(None) == 1, "the other was the end of the second step"
        score = await player.end()
    assert score.reward == 0.5


# --- tools --------------------------------------------------------------------------------------------------------


async def test_a_shell_runs_in_the_working_directory_and_tells_how_it_ended(play: Open) -> None:
    async with play(Terminal, GREETING) as player:
        assert await player.bash("pwd; echo wrong >&2; exit 3") == "/app\nwrong\n[exit status 3]"
        assert await player.bash("cd /tmp; X=1") == "[exit status 0]"
        assert await player.bash("pwd; echo /$X") == "/app\n/\n[exit status 0]"
        assert "1 running in the background" in await player.bash("sleep 60 >/dev/null 2>&1 &")
        assert "sleep 60" in await player.bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


@pytest.mark.parametrize("broken", ["rm -f /bin/sh /bin/bash", "mv /lib64 /lib65", "cd /; rm -rf $OLDPWD"])
async def test_an_agent_that_removed_its_shell_is_told_so(play: Open, broken: str) -> None:
    async with play(Terminal, GREETING) as player:
        await player.bash(broken)
        for _ in range(2):
            assert "could not be started" in await player.bash("true")
        assert (await player.end()).reward == 0.0


async def test_a_command_is_stopped_with_all_it_started(play: Open) -> None:
    async with play(Terminal, GREETING) as player:
        said = await player.bash("echo begun; setsid sleep 987 & sleep 987", timeout_seconds=2)
        assert said == "begun\n[stopped after 2 seconds, with all its processes]"
        assert "sleep 98[7]" not in await player.bash("grep -la 'sleep.98[7]' /proc/[0-9]*/cmdline; true")


async def test_long_output_says_how_much_is_missing(play: Open) -> None:
    async with play(Terminal, TerminalConfig(data=GREETING.data, output_bytes=1000)) as player:
        said = await player.bash("seq 100000")
        assert said.startswith("1\n2\n")
        assert "bytes dropped" in said
        assert said.endswith("100000\n[exit status 0]")
        await player.bash("seq 100000 > /tmp/long")
        assert "bytes left out" in await player.call("read_file", path="/tmp/long")


async def test_files_are_written_read_edited_and_listed(play: Open) -> None:
    async with play(Terminal, GREETING) as player:
        assert await player.call("write_file", path="a/b.txt", content="one\ntwo\ntwo\n") == (
            "Wrote 12 bytes to /app/a/b.txt."
        )
        assert await player.call("read_file", path="a/b.txt") == "one\ntwo\ntwo\n"
        shown = await player.call("read_file", path="/app/a/b.txt", first_line=2, lines=1)
        assert shown == "two\n[lines 2 to 2 of 3]"
        assert await player.call("edit_file", path="a/b.txt", old="one", new="three") == "Edited /app/a/b.txt."
        assert await player.call("list_files", recursive=True) == "/app/a/\n/app/a/b.txt  14 bytes"
        await player.bash("chmod 750 a/b.txt")
        await player.call("edit_file", path="a/b.txt", old="three\n", new="")
        assert await player.bash("stat -c %a a/b.txt; cat a/b.txt") == "750\ntwo\ntwo\n[exit status 0]"


REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("read_file", {"path": "none"}, "/app/none cannot be read: there is no such file"),
    ("read_file", {"path": "/etc"}, "/etc cannot be read: "),
    ("read_file", {"path": "/bin/ls"}, "/bin/ls is no UTF-8 text"),
    ("read_file", {"path": ""}, "the path is empty"),
    ("edit_file", {"path": "/etc/passwd", "old": "nologin", "new": ""}, "times; make it longer. Nothing was changed"),
    ("edit_file", {"path": "/etc/passwd", "old": "a b c", "new": ""}, "`old` is not in the file"),
    ("edit_file", {"path": "/etc/passwd", "old": "", "new": ""}, "`old` is empty"),
    ("write_file", {"path": "/etc", "content": ""}, "/etc cannot be written: "),
    ("write_file", {"path": "/proc/x", "content": ""}, "/proc/x cannot be written: "),
    ("list_files", {"path": "/none"}, "/none cannot be listed: there is no such file"),
    ("bash", {"command": "x" * 200_000}, "write it to a file"),
    ("bash", {"command": "true", "timeout_seconds": 0}, "timeout_seconds"),
    ("bash", {"command": "true", "cwd": "/"}, "unknown argument 'cwd'"),
]


async def test_what_cannot_be_done_is_said(play: Open) -> None:
    async with play(Terminal, GREETING) as player:
        for tool, arguments, said in REFUSED:
            assert said in await player.call(tool, **arguments), (tool, arguments)
        assert player.episode.faults == []


# --- time, users, health ------------------------------------------------------------------------------------------


async def test_when_the_agents_time_is_over_its_tools_say_so(play: Open, tmp_path: Path) -> None:
    async with play(Terminal, changed(tmp_path, "greeting", "timeout_sec = 120.0", "timeout_sec = 1.0")) as player:
        assert "stopped after" in await player.bash("sleep 60")
        assert await player.bash("true") == "the time for this task is over"
        assert "over" in await player.call("write_file", path="hello.txt", content="Hello, world!")
        assert (await player.end()).reward == 0.0


async def test_a_user_that_is_not_root_has_its_own_rights_with_every_tool(play: Open) -> None:
    async with play(Terminal, TerminalConfig(data=str(TASKS / "plain_user"))) as player:
        assert await player.bash("id -un; pwd") == "worker\n/srv/work\n[exit status 0]"
        await player.call("write_file", path="mine.txt", content="x")
        assert (await player.bash("stat -c %U mine.txt")).startswith("worker")
        assert "permission denied" in await player.call("read_file", path="/etc/shadow")
        assert "permission denied" in await player.call("write_file", path="/etc/passwd", content="")
        (ref,) = player.episode.sandboxes
        assert (ref.profile, ref.user) == ("hardened", "worker")


async def test_a_user_in_a_container_with_root_has_its_own_rights_too(play: Open, tmp_path: Path) -> None:
    given = TerminalConfig(data=str(TASKS / "plain_user"), profile="root-compat")
    by_image = changed(tmp_path, "plain_user", 'user = "worker"\n', "")
    with (tmp_path / "plain_user" / "environment" / "Dockerfile").open("a") as dockerfile:
        dockerfile.write("USER worker\n")
    for config in (given, by_image):
        async with play(Terminal, config) as player:
            assert "worker" in await player.bash("id -un")
            assert "permission denied" in await player.call("read_file", path="/etc/shadow")
            assert "permission denied" in await player.call("write_file", path="/etc/passwd", content="")
            assert "Wrote" in await player.call("write_file", path="a/mine.txt", content="x")
            assert await player.call("read_file", path="a/mine.txt") == "x"
            assert (await player.bash("stat -c %U a/mine.txt")).startswith("worker")
            await player.play_reference()
            assert (await player.end()).reward == 1.0


async def test_a_world_that_is_not_well_is_the_environments_fault(play: Open, tmp_path: Path) -> None:
    config = changed(tmp_path, "plain_user", "test -d /srv/work", "echo not yet; false")
    with pytest.raises(TaskError, match="not healthy after 3 checks: not yet"):
        async with play(Terminal, config):
            pass


# --- steps --------------------------------------------------------------------------------------------------------


async def test_a_step_is_graded_before_the_next_one_begins(play: Open) -> None:
    async with play(Terminal, TerminalConfig(data=str(TASKS / "two_steps"))) as player:
        assert "No such file" in await player.bash("cat note.txt")
        await player.bash(PRIMES)
        instruction = await say_done(player)
        assert instruction is not None
        assert instruction.startswith("Now write the sum")
        assert "A number" in await player.bash("cat note.txt")
        assert "No such file" in await player.bash("ls /tests")
        await player.bash("echo 328 > sum.txt")
        assert await say_done(player) is None
        score = await player.end()
    assert (score.reward, score.passed) == (1.0, True)
    assert {name: part.value for name, part in score.components.items()} == {"primes": 1.0, "sum": 1.0}


async def test_a_gate_that_is_not_reached_ends_the_task(play: Open) -> None:
    async with play(Terminal, TerminalConfig(data=str(TASKS / "two_steps"))) as player:
        await player.bash("echo 4 > primes.txt; echo 328 > sum.txt")
        assert await say_done(player) is None
        assert await say_done(player) is None
        score = await player.end()
    assert score.reward == 0.0
    assert score.feedback is not None
    assert "not reached: sum" in score.feedback


async def test_a_step_that_was_left_is_graded_and_those_after_it_count_nothing(play: Open) -> None:
    async with play(Terminal, TerminalConfig(data=str(TASKS / "two_steps"))) as player:
        await player.bash(PRIMES)
        score = await player.end()
    assert score.reward == 0.5


async def test_a_plain_client_is_told_of_the_next_step_by_a_tool(play: Open) -> None:
    async with play(Terminal, TerminalConfig(data=str(TASKS / "two_steps"))) as player:
        await player.bash(PRIMES)
        assert (await player.call("reply", text="Done.")).startswith("Now write the sum")
        await player.bash("echo 328 > sum.txt")
        assert await player.call("reply", text="Done.") == "The conversation is over."
        assert (await player.end()).reward == 1.0


# --- the verifier -------------------------------------------------------------------------------------------------


async def test_tests_that_are_too_slow_are_a_fault(play: Open, tmp_path: Path) -> None:
    config = changed(tmp_path, "greeting", "timeout_sec = 60.0", "timeout_sec = 1.0")
    (tmp_path / "greeting" / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt; sleep 60\n")
    async with play(Terminal, config) as player:
        with anyio.fail_after(30), pytest.raises(VerifierError, match="not done after 1 s"):
            await player.end()


async def test_a_verifier_with_an_image_of_its_own_holds_its_tests(play: Open, tmp_path: Path) -> None:
    config = changed(tmp_path, "many_rewards", 'environment_mode = "separate"', 'environment_mode = "separate"\n')
    tests = tmp_path / "many_rewards" / "tests"
    shutil.copy(TASKS / "many_rewards" / "environment" / "text.txt", tests)
    lines = ["FROM python:3.12-slim", "COPY test.sh check.py /tests/", "COPY text.txt /app/text.txt", "WORKDIR /app"]
    (tests / "Dockerfile").write_text("\n".join(lines) + "\n")
    async with play(Terminal, config) as player:
        await player.play_reference()
        assert (await player.end()).reward == 1.0
