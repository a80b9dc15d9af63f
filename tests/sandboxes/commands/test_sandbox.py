"""`hub sandbox` on a real engine, beside a live hub: this process."""

import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator

import anyio
import pytest

from rollouthub.errors import UsageError
from rollouthub.sandbox import Sandbox, SandboxSpec
from rollouthub_sandboxes.docker.live_containers import LiveContainer, pick
from rollouthub_sandboxes.docker.provider import docker_provider
from rollouthub_sandboxes.engine.engine import Engine
from rollouthub_sandboxes.engine.labels import labels, owner_of
from rollouthub_sandboxes.images import ensure_image
from tests.cli.conftest import HUB, environment
from tests.sandboxes.commands.conftest import NO_ENGINE, AsyncHub, terminal


@pytest.fixture
async def sandbox(engine: Engine) -> AsyncGenerator[Sandbox]:
    """A live sandbox of this process."""
    async with docker_provider() as provider, provider.open(SandboxSpec()) as sandbox:
        yield sandbox


async def test_a_live_sandbox_is_listed_with_its_owner(hub: AsyncHub, sandbox: Sandbox) -> None:
    listed = (await hub("sandbox", "list", "--json")).json["sandboxes"]
    [one] = [one for one in listed if one["name"] == sandbox.id]
    assert (one["owner_pid"], one["owner_alive"], one["is_leftover"]) == (os.getpid(), True, False)
    assert one["state"] == "running"
    assert one["image"].startswith("rollouthub/base:")
    assert one["deadline"] > time.time()
    assert sandbox.id in (await hub("sandbox", "list")).out


@pytest.mark.parametrize("project", ["rollouthub", "envhub"])
async def test_a_sweep_takes_what_a_dead_hub_left_and_nothing_of_a_live_one(
    project: str, hub: AsyncHub, engine: Engine, sandbox: Sandbox
) -> None:
    async with await anyio.open_process([sys.executable, "-c", "input()"]) as process:
        owner = owner_of(process.pid)
        process.kill()
    image = (await ensure_image(engine, None)).reference
    present = labels(owner, "a dead run", time.time() + 600)
    marks = {name.replace("rollouthub", project, 1): text for name, text in present.items()}
    config = {"Image": image, "Cmd": ["sleep", "600"], "Labels": marks, "HostConfig": {"NetworkMode": "none"}}
    for _ in range(5):  # a hub of another test that starts meanwhile takes what is left over, too
        name = f"rollouthub-test-{secrets.token_hex(6)}"
        await engine.call(engine.api.create_container_from_config, config, name)
        listed = (await hub("sandbox", "list", "--json")).json["sandboxes"]
        swept = (await hub("sandbox", "sweep", "--json")).json
        if name in swept["containers"]:
            break
    else:
        raise AssertionError("it is not swept")
    assert [one["is_leftover"] for one in listed if one["name"] == name] == [True]
    assert sandbox.id not in swept["containers"]
    assert swept["kept"] >= 1
    assert (await sandbox.exec(("true",))).exit_status == 0


async def test_a_command_in_a_live_sandbox_has_its_streams_and_its_status_passed_on(
    hub: AsyncHub, sandbox: Sandbox
) -> None:
    script = "cat; echo problem >&2; id -u; exit 3"
    done = await hub("sandbox", "shell", sandbox.id, "--", "sh", "-c", script, stdin=b"what was piped\n")
    assert (done.code, done.out) == (3, "what was piped\n65534\n")
    assert "problem" in done.err


async def test_a_shell_has_a_terminal_of_the_same_size(sandbox: Sandbox) -> None:
    name = sandbox.id  # exact
    with terminal(37, 101) as (ours, theirs):
        command = [*HUB, "sandbox", "shell", name]
        process = await anyio.open_process(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(), start_new_session=True
        )
        said = ""

        async def read_until(mark: str) -> None:
            nonlocal said
            while mark not in said:
                await anyio.wait_readable(ours)
                said += os.read(ours, 4096).decode()

        with anyio.fail_after(30):
            await read_until("$ ")
            # The size comes right after the shell: it may be there a moment before it.
            script = (
                "test -t 0 && echo is a termi''nal; until stty size | grep -x '37 1''01'; do sleep 0.1; done; exit 5\n"
            )
            os.write(ours, script.encode())
            await read_until("is a terminal")
            await read_until("37 101")
            assert await process.wait() == 5


async def test_a_name_that_fits_nothing_is_met_with_what_may_be_meant(hub: AsyncHub, sandbox: Sandbox) -> None:
    assert f"did you mean {sandbox.id!r}" in (await hub("sandbox", "shell", sandbox.id[:-1] + "x")).refused()


def _container(name: str, id: str) -> LiveContainer:
    return LiveContainer(id, name, "image", "running", "sandbox", "run", 1, True, False, 0.0, 0.0)


def test_the_beginning_of_a_name_or_an_id_is_enough_where_it_is_clear() -> None:
    one, two = _container("rollouthub-aa-1", "0123"), _container("rollouthub-ab-1", "0456")
    assert pick([one, two], "rollouthub-aa") is one
    assert pick([one, two], "045") is two
    assert pick([one, _container("rollouthub-aa-12", "9")], "rollouthub-aa-1") is one
    with pytest.raises(UsageError, match="may mean 2 sandboxes: rollouthub-aa-1, rollouthub-ab-1"):
        pick([one, two], "rollouthub-a")
    with pytest.raises(UsageError, match="none is running"):
        pick([], "rollouthub-a")


@pytest.mark.parametrize("command", [["list"], ["sweep"], ["shell", "x"], ["bench", "--provider", "docker"]])
async def test_without_an_engine_one_message_says_so(hub: AsyncHub, command: list[str]) -> None:
    assert "no container engine answers" in (await hub("sandbox", *command, **NO_ENGINE)).refused()
