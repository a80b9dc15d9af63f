"""Runs in environments that somebody else serves, here by a server written without ours."""

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio

from rollouthub.store import open_run
from tests.hosting.client.stub import TOKEN, stub_server

from .conftest import HUB, environment


async def hub(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """A command beside the server of the test."""
    with anyio.fail_after(180):
        return await anyio.run_process([*HUB, *arguments], cwd=folder, env=environment(**more), check=False)


async def test_an_environment_in_any_language_is_run_at_its_address(tmp_path: Path) -> None:
    arguments = ["-m", "mock/say?text=hello", "--repeats", "3", "-o", "run", "--json"]
    async with stub_server() as server:
        done = await hub(tmp_path, "run", server.url, *arguments, ROLLOUTHUB_CONTROL_TOKEN=TOKEN)
        assert done.returncode == 0, done.stderr.decode()
        summary: dict[str, Any] = json.loads(done.stdout)
        assert (summary["scored"], summary["mean_reward"]) == (3, 1.0)
        with open_run(tmp_path / "run") as reader:
            rollouts = [reader.rollout(row.rollout_id) for row in reader.summaries()]
        assert {(one.environment.name, one.isolation) for one in rollouts} == {("stub", "process")}
        for file in (tmp_path / "run").rglob("*"):
            assert file.is_dir() or TOKEN.encode() not in file.read_bytes(), file

        again = ["run", "--config", "run/resolved.json", "-o", "again", "-q"]
        done = await hub(tmp_path, *again, ROLLOUTHUB_CONTROL_TOKEN=TOKEN)
        assert done.returncode == 0, done.stderr.decode()


async def test_a_resumed_run_finds_the_environment_at_its_new_address(tmp_path: Path) -> None:
    arguments = ["-m", "mock/say?text=hello", "-o", "run", "-q"]
    async with stub_server() as server:
        assert (await hub(tmp_path, "run", server.url, *arguments, ROLLOUTHUB_CONTROL_TOKEN=TOKEN)).returncode == 0
    async with stub_server() as moved:
        arguments = [moved.url, *arguments, "--resume", "--repeats", "2"]
        done = await hub(tmp_path, "run", *arguments, ROLLOUTHUB_CONTROL_TOKEN=TOKEN)
        assert done.returncode == 0, done.stderr.decode()
        assert moved.seen.count("open") == 1


async def test_what_cannot_be_met_is_a_clear_refusal(tmp_path: Path) -> None:
    async with stub_server() as server:
        for arguments, token, words in (
            (["http://127.0.0.1:9"], TOKEN, "no environment is served at http://127.0.0.1:9"),
            ([server.url], "", "set ROLLOUTHUB_CONTROL_TOKEN"),
            ([server.url], "not-this-one", "refuses the credential in ROLLOUTHUB_CONTROL_TOKEN"),
            ([server.url, "--set", "size=3"], TOKEN, "settings are given (size), but the environment's server is"),
            ([server.url, "--role", "judge=mock/solver"], TOKEN, "roles are given (judge)"),
            (["http://user:word@127.0.0.1:9"], TOKEN, "carries a user or password"),
        ):
            done = await hub(tmp_path, "run", *arguments, "-o", "run", ROLLOUTHUB_CONTROL_TOKEN=token)
            complaint = done.stderr.decode()
            assert (done.returncode, "Traceback" in complaint) == (2, False), complaint
            assert words in " ".join(complaint.split()), complaint
            assert not token or token not in complaint
