"""Server processes that never get as far as serving: each is ended in time, and its end tells why."""

import json
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import ConfigError, TaskError
from rollouthub.hosting.client.server_process import LINES_A_SECOND, ServerProcess, kill_running, start
from rollouthub.hosting.launch import ServeOrder
from rollouthub.hosting.server_program import ServerProgram
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub.processes import IMPORT_SETTINGS, clean_environment

ORDER = ServeOrder(environment="somebody's", control_token="control-token-of-this-test")
READY = {"name": "x", "control_url": "http://127.0.0.1:1", "agent_url": "http://127.0.0.1:1", "pid": 1}


@asynccontextmanager
async def server(program: str) -> AsyncGenerator[ServerProcess]:
    """A program that stands where a server should."""
    with anyio.fail_after(60):
        process = await start("somebody's", ServerProgram((sys.executable, "-c", program)))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.hear)
                yield process
                tasks.cancel_scope.cancel()
        finally:
            await process.end(at_once=True)


def is_running(pid: int) -> bool:
    """Whether a process lives; one that is dead and only not asked after does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_a_server_that_ends_before_it_is_up_says_why() -> None:
    async with server("import sys; sys.stderr.write('no such data set\\n'); sys.exit(3)") as process:
        with pytest.raises(TaskError, match=r"ended before it was up \(exit code 3; it said: no such data set\)"):
            await process.greet(ORDER)


async def test_a_child_that_holds_the_pipes_open_does_not_hold_up_the_news_of_a_crash(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = "subprocess.Popen(['sleep', '60'], start_new_session=True)"
    async with server(f"import os, subprocess; open({str(note)!r}, 'w').write(str({child}.pid)); os._exit(4)") as it:
        with anyio.fail_after(20), pytest.raises(TaskError, match="exit code 4"):
            await it.greet(ORDER)
        with anyio.fail_after(20):
            await it.wait()
        holder = int(note.read_text())
        assert is_running(holder)
        os.kill(holder, signal.SIGKILL)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("print('Hello!', flush=True); input(); input()", "greeted with b'Hello!'"),
        ("import sys; sys.stdout.write('x' * 3_000_000); sys.stdout.flush(); input(); input()", "greeted with b'xxx"),
        ("print('{}', flush=True); input(); input()", "greeted with b'{}'"),
    ],
    ids=["words", "flood", "another shape"],
)
async def test_a_greeting_that_is_none_is_refused(program: str, words: str) -> None:
    async with server(program) as process:
        with pytest.raises(TaskError, match=words) as caught:
            await process.greet(ORDER)
        assert not caught.value.retryable


async def test_a_server_that_never_reads_nor_speaks_is_given_up_in_time() -> None:
    large = ORDER.model_copy(update={"config": {"text": "x" * 2**20}})
    async with server("import time; time.sleep(60)") as process:
        assert process.is_alive
        with pytest.raises(TaskError, match=r"was not up after 0\.3 s"):
            await process.greet(large, start_seconds=0.3)


async def test_a_refusal_keeps_its_type() -> None:
    failure = json.dumps({"error": {"type": "ConfigError", "message": "size = 'many' is no integer"}})
    async with server(f"import sys; input(); print({failure!r}); sys.exit(2)") as process:
        with pytest.raises(ConfigError, match="no integer"):
            await process.greet(ORDER)


async def test_a_flood_on_stderr_is_heard_and_not_logged_whole(caplog: pytest.LogCaptureFixture) -> None:
    program = (
        "import sys; input()\n"
        "for n in range(200_000): sys.stderr.write(f'{n} of many lines\\n')\n"
        f"sys.stderr.flush(); print({json.dumps(READY)!r}, flush=True); sys.stdin.read()"
    )
    with caplog.at_level(logging.INFO):
        async with server(program) as process:
            assert (await process.greet(ORDER)).name == "x"
            await process.end()
            assert "199999 of many lines" in await process.last_words()
    assert 0 < sum("of many lines" in line for line in caplog.messages) <= 20 * LINES_A_SECOND


async def test_what_a_server_started_ends_with_it() -> None:
    ready = json.dumps({**READY, "pid": 0}).replace(": 0", ": %d")
    program = (
        "import subprocess, sys; input()\n"
        f"child = subprocess.Popen(['sleep', '60']); print({ready!r} % child.pid, flush=True); sys.stdin.read()"
    )
    async with server(program) as process:
        grandchild = (await process.greet(ORDER)).pid
        assert is_running(grandchild)
        await process.end()
        with anyio.fail_after(20):
            while is_running(grandchild):
                await anyio.lowlevel.checkpoint()


async def test_whoever_leaves_without_cleaning_up_ends_every_server() -> None:
    async with server("import time; time.sleep(60)") as one, server("import time; time.sleep(60)") as other:
        assert one.is_alive
        assert other.is_alive
        kill_running()
        await one.wait()
        await other.wait()


async def test_a_program_that_does_not_exist_is_a_fault_and_no_crash() -> None:
    with pytest.raises(TaskError, match="could not be started"):
        await start("somebody's", ServerProgram(("/nonexistent/program",)))


def test_variables_named_like_secrets_are_kept_from_environments() -> None:
    secret = (
        "OPENAI_API_KEY",
        "OPENAI_API_KEY_2",
        "HF_TOKEN",
        "ROLLOUTHUB_CONTROL_TOKEN",
        "MYSQL_PWD",
        "API_KEYS",
        "X_PASSPHRASE",
    )
    plain = ("PATH", "PWD", "KEYBOARD", "TOKENIZERS_PARALLELISM", "HOME")
    everything: dict[str, str] = dict.fromkeys((*secret, *plain), "x")
    assert set(clean_environment(everything)) == {*plain, *IMPORT_SETTINGS}
    # What an environment declares that it needs, it gets; and that alone.
    assert set(ServerProgram(secrets=(secret[0], "NOT_SET")).environment(everything)) == {
        *plain,
        *IMPORT_SETTINGS,
        secret[0],
    }


def test_an_installed_environment_is_shown_less_and_what_it_declares() -> None:
    named = ("GITHUB_PAT", "TOKEN_OF_LAB", "API_KEY_OPENAI", "AWS_ACCESS_KEY_ID", "NPM_CONFIG__AUTH", "SSH_AUTH_SOCK")
    login = {"DATABASE_URL": "postgres://me:pw@host/db", "UV_INDEX_URL": "https://pat@host/simple"}
    plain = {
        "PATH": "/bin",
        "PWD": "/",
        "XAUTHORITY": "/x",
        "TOKENIZERS_PARALLELISM": "1",
        "HF_ENDPOINT": "https://h/@x",
    }
    everything: dict[str, str] = dict.fromkeys((*named, "OPENAI_API_KEY"), "x") | login | plain
    installed = ServerProgram(secrets=("DATABASE_URL",), is_strangers=True)
    assert set(installed.environment(everything)) == {*plain, *IMPORT_SETTINGS, "DATABASE_URL"}


def test_what_is_installed_is_a_strangers(tmp_path: Path) -> None:
    locked = LockedEnvironment(name="lab/sums", version="1.0.0")
    installation = Installation(locked, "Sums.", tmp_path / "env.toml", tmp_path / "python", is_class=True)
    assert "GITHUB_PAT" not in ServerProgram.of(installation).environment({"GITHUB_PAT": "ghp_x"})
