"""Attacks on grading, each in real containers: what an agent leaves behind does not speak for the tests."""

import shutil
from pathlib import Path

import pytest

from rollouthub.errors import VerifierError
from rollouthub.sandbox import File
from rollouthub_servers.terminal import Terminal, TerminalConfig
from tests.mcp_servers.containers import TASKS, Open, Player

FORGE = "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo 1 > /logs/verifier/reward.json"
LOOP = "while :; do mkdir -p /logs/verifier; echo 1 > /logs/new; mv /logs/new /logs/verifier/reward.txt; done"
OVERWRITE = f"setsid sh -c '{LOOP}' >/dev/null 2>&1 &"
PLANT = """\
cat > /app/conftest.py <<'END'
import os
def pytest_sessionfinish(session, exitstatus):
    os._exit(0)
END
cat > /app/pytest.ini <<'END'
[pytest]
addopts = --collect-only
END
"""
CANARIES = ("271828182845904523", "577215664901532860")


def config(name: str) -> TerminalConfig:
    return TerminalConfig(data=str(TASKS / name))


async def grade_as_a_shared_verifier_would(player: Player, name: str) -> str:
    """Put the tests beside the agent's processes and files, and run them there: what separate grading is to avoid."""
    sandbox = player.episode.environment.sandbox
    tests = [File(path.name, path.read_bytes(), 0o755) for path in (TASKS / name / "tests").iterdir()]
    await sandbox.place(tests, "/tests")
    clean = "mkdir -p /logs/verifier; rm -f /logs/verifier/*; bash /tests/test.sh"
    wait = "until grep -qx 1 /logs/verifier/reward.txt; do :; done"  # until the attack has had its turn
    assert (await sandbox.exec(["sh", "-c", f"{clean}; {wait}"])).exit_status == 0
    return (await sandbox.read_file("/logs/verifier/reward.txt")).decode().strip()


@pytest.mark.parametrize(
    "attack", [pytest.param(OVERWRITE, marks=pytest.mark.soak), PLANT], ids=["overwriter", "conftest"]
)
async def test_what_fools_a_shared_verifier_is_caught(play: Open, attack: str) -> None:
    async with play(Terminal, config("hackable")) as player:
        await player.bash(attack)
        if attack == OVERWRITE:
            assert "while :" in await player.bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' '"), "the victim is alive"
            assert "1" in await player.bash("until [ -s /logs/verifier/reward.txt ]; do :; done; echo 1")
        assert await grade_as_a_shared_verifier_would(player, "hackable") == "1"
    async with play(Terminal, config("hackable")) as player:
        await player.bash(attack)
        score = await player.end()
    assert (score.reward, score.passed) == (0.0, False)


@pytest.mark.soak
async def test_planted_hooks_are_taken_out_and_told(play: Open) -> None:
    async with play(Terminal, config("hackable")) as player:
        await player.bash(PLANT)
        libraries = "/usr/local/lib/python3.11/dist-packages"
        await player.call("write_file", path=f"{libraries}/sitecustomize.py", content="raise SystemExit")
        await player.call("write_file", path=f"{libraries}/x.pth", content="import os; os._exit(0)")
        score = await player.end()
    assert score.reward == 0.0
    assert score.metrics["planted_files"] == 4
    assert score.metrics["changed_system_files"] >= 2
    assert score.feedback is not None
    for name in ("/app/conftest.py", "/app/pytest.ini", "sitecustomize.py", "x.pth"):
        assert name in score.feedback


async def test_code_that_hides_behind_odd_line_ends_is_taken_out(play: Open) -> None:
    libraries = "/usr/local/lib/python3.11/dist-packages"
    async with play(Terminal, config("hackable")) as player:
        await player.bash(f"printf '#\\rimport os; os._exit(0)' > {libraries}/return.pth")
        await player.bash(f"printf '\\357\\273\\277import os; os._exit(0)' > {libraries}/mark.pth")
        await player.bash("printf '[tool.pytest.ini_options]\\naddopts = \"--collect-only\"\\n' > /pyproject.toml")
        score = await player.end()
    assert (score.reward, score.metrics["planted_files"]) == (0.0, 3)


async def test_a_reward_in_a_file_that_the_tests_do_not_write_does_not_count(play: Open) -> None:
    forge = "open('/logs/verifier/reward.json', 'w').write('1')"
    async with play(Terminal, config("hackable")) as player:
        await player.bash(f'echo "{forge}" >> /app/stats.py')
        score = await player.end()
    assert score.reward == 0.0


async def test_honest_work_beside_a_planted_hook_still_counts(play: Open) -> None:
    async with play(Terminal, config("hackable")) as player:
        await player.bash(PLANT)
        await player.play_reference()
        score = await player.end()
    assert score.reward == 1.0
    assert score.metrics["planted_files"] == 2


async def test_a_forged_reward_file_is_gone_before_the_tests(play: Open) -> None:
    async with play(Terminal, config("greeting")) as player:
        await player.bash(FORGE)
        assert "1" in await player.bash("cat /logs/verifier/reward.txt")
        score = await player.end()
    assert score.reward == 0.0


@pytest.mark.parametrize(
    "attack",
    [
        "rm -rf /logs/verifier; mkdir -p /tmp/own; echo 1 > /tmp/own/reward.json; ln -s /tmp/own /logs/verifier",
        pytest.param(
            "rm -rf /logs; mkdir -p /tmp/own/verifier; echo 1 > /tmp/own/verifier/reward.json; ln -s /tmp/own /logs",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            "mkdir -p /tmp/own; echo 'echo 1 > /logs/verifier/reward.txt' > /tmp/own/test.sh; ln -s /tmp/own /tests",
            marks=pytest.mark.soak,
        ),
        "mkdir -p /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; chattr +i /tests/test.sh",
        pytest.param("rm -rf /logs; echo > /logs", marks=pytest.mark.soak),
        pytest.param("mkdir -p /logs/verifier; ln -s /etc/hostname /logs/verifier/reward.json", marks=pytest.mark.soak),
    ],
)
async def test_links_and_files_in_the_places_of_the_tests_change_nothing(play: Open, attack: str) -> None:
    async with play(Terminal, config("greeting")) as player:
        await player.bash(attack)
        score = await player.end()
        assert score.reward == 0.0
    async with play(Terminal, config("greeting")) as player:
        await player.bash(attack)
        await player.bash("echo 'Hello, world!' > /app/hello.txt")
        score = await player.end()
        assert score.reward == 1.0


async def test_a_shell_that_was_replaced_does_not_run_the_tests(play: Open) -> None:
    fake = "#!/usr/bin/perl\nmkdir '/logs'; mkdir '/logs/verifier'; open(F, '>/logs/verifier/reward.txt'); print F 1;\n"
    async with play(Terminal, config("greeting")) as player:
        await player.call("write_file", path="/tmp/fake", content=fake)
        said = await player.bash(
            "chmod +x /tmp/fake; cp /tmp/fake /usr/local/bin/bash; cp /tmp/fake /bin/new; mv /bin/new /bin/bash"
        )
        assert "exit status 0" in said
        score = await player.end()
    assert score.reward == 0.0
    assert score.feedback is not None
    assert "/usr/local/bin/bash" in score.feedback
    assert "/usr/bin/bash" in score.feedback


async def test_the_tests_and_the_solution_are_nowhere_to_be_found(play: Open) -> None:
    # Written so that a search does not find itself.
    canaries = "|".join(f"{canary[:-1]}[{canary[-1]}]" for canary in CANARIES)
    async with play(Terminal, config("greeting")) as player:
        for places in (
            "$(find / -xdev -type f -newer /etc/passwd 2>/dev/null)",
            "-r /app /tests /solution /logs /tmp /root /home /opt /srv /etc /run /.rollouthub /dev/shm",
            "-a /proc/[0-9]*/environ /proc/[0-9]*/cmdline",
        ):
            said = await player.bash(f"grep -lE '{canaries}' /nowhere {places} 2>/dev/null; echo searched")
            assert said == "searched\n[exit status 0]"
        assert "No such file" in await player.bash("ls /tests /solution")
        for tool in ("read_file", "list_files"):
            assert "cannot be" in await player.call(tool, path="/tests")


async def test_nothing_of_an_episode_is_in_another(play: Open) -> None:
    solve = "echo Hello, world! > /app/hello.txt; touch /usr/kept /tmp/kept; (sleep 600 &) ; ls /app"
    async with play(Terminal, config("greeting")) as one, play(Terminal, config("greeting")) as other:
        assert "hello.txt" in await one.bash(solve)
        assert "hello.txt" not in await other.bash("ls /app /usr /tmp; ps -e 2>/dev/null || true")
        assert (await other.end()).reward == 0.0
    async with play(Terminal, config("greeting")) as later:
        seen = await later.bash("ls /app /usr /tmp; cat /proc/[0-9]*/cmdline")
        assert "hello.txt" not in seen and "kept" not in seen and "600" not in seen
        assert (await later.end()).reward == 0.0


async def test_the_solution_lies_where_tasks_expect_it_in_an_oracles_episode(play: Open) -> None:
    async with play(Terminal, config("greeting")) as player:
        assert "No such file" in await player.bash("ls /solution")
        await player.play_reference()
        assert "solve.sh" in await player.bash("ls /solution")
        assert "Hello" in await player.bash("cat /app/hello.txt")


async def test_tests_that_leave_no_reward_are_a_fault_and_no_zero(play: Open, tmp_path: Path) -> None:
    for script, reason in (
        ("true", "wrote neither"),
        ("echo nan > /logs/verifier/reward.txt", "not finite"),
        (": > /logs/verifier/reward.txt", "is empty"),
        ("echo 1 > /tmp/r; ln -s /tmp/r /logs/verifier/reward.txt", "cannot be read"),
    ):
        folder = tmp_path / "task"
        shutil.copytree(TASKS / "greeting", folder, dirs_exist_ok=True)
        (folder / "tests" / "test.sh").write_text(script)
        async with play(Terminal, TerminalConfig(data=str(folder))) as player:
            with pytest.raises(VerifierError, match=reason):
                await player.end()


async def test_nothing_but_declared_artifacts_crosses_where_a_task_declares_some(play: Open) -> None:
    async with play(Terminal, config("many_rewards")) as player:
        await player.bash("echo 'words nobody wrote' > /app/text.txt; mkdir -p /app/out")
        await player.bash(
            "printf 'nobody\\nwords\\nwrote\\n' > /app/out/words.txt; ln -s /etc/passwd /app/out/count.txt"
        )
        score = await player.end()
    assert (score.reward, score.metrics["artifact_files"]) == (0.0, 1)


async def test_artifacts_over_their_size_score_nothing(play: Open) -> None:
    limited = TerminalConfig(data=str(TASKS / "many_rewards"), artifact_mb=1)
    async with play(Terminal, limited) as player:
        await player.bash("mkdir -p /app/out; head -c 2000000 /dev/zero > /app/out/words.txt")
        score = await player.end()
    assert score.reward == 0.0
    assert score.feedback is not None
    assert "cannot be collected" in score.feedback
