"""What stands in for the supervisor where that cannot run: the engine's own exec, loudly."""

import logging
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from rollouthub.errors import NotOffered, SandboxError
from rollouthub.sandbox import CommandNotStarted, File, Sandbox, SandboxFileError, SandboxSpec
from rollouthub_sandboxes.docker.container_creation import Maker
from rollouthub_sandboxes.docker.provider import DockerProvider
from rollouthub_sandboxes.engine.engine import Engine
from tests.sandboxes.docker.test_supervisor_volume import name_of


@asynccontextmanager
async def opened(provider: DockerProvider, spec: SandboxSpec, payload: bytes | None) -> AsyncGenerator[Sandbox]:
    """A sandbox on the provider's engine, with another supervisor or none."""
    maker = Maker(provider.engine, f"test-{time.time_ns():x}", payload, has_quota=False)
    recipe = await provider._recipe(spec)  # pyright: ignore[reportPrivateUsage]  # made as the provider makes it
    async with maker.make(recipe) as box:
        yield box.sandbox


@pytest.fixture
async def bare(provider: DockerProvider, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
    """A sandbox without a supervisor."""
    async with opened(provider, spec, None) as sandbox:
        yield sandbox


async def test_it_is_taken_loudly_where_the_supervisor_does_not_run(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    payload = b"no program " + secrets.token_bytes(8)  # a volume that nobody else's test has
    with caplog.at_level(logging.WARNING):
        async with opened(provider, spec, payload) as sandbox:
            assert sandbox.ref.runner == "engine-exec"
            assert any("deadline ends the whole sandbox" in text for text in sandbox.ref.limitations)
            assert (await sandbox.exec("echo works")).stdout.text == "works\n"
    assert "slower and weaker" in caplog.text
    await engine.call(engine.api.remove_volume, name_of(payload, engine))


async def test_commands_run_and_say_how_they_ended(bare: Sandbox) -> None:
    done = await bare.exec("cat; echo bad >&2; pwd; exit 3", stdin=b"good\n", environment={"A": "b"})
    assert (done.exit_status, done.stdout.text, done.stderr.text) == (3, "good\n/workspace\n", "bad\n")
    with pytest.raises(CommandNotStarted):
        await bare.exec(["no-such-program"])
    done = await bare.exec("head -c 3000000 /dev/zero", output_bytes=1000)
    assert (len(done.stdout.head), len(done.stdout.tail), done.stdout.dropped_bytes) == (500, 500, 2_999_000)


async def test_a_deadline_ends_the_whole_sandbox(bare: Sandbox) -> None:
    with anyio.fail_after(30), pytest.raises(SandboxError, match="more than 1 s"):
        await bare.exec("trap '' TERM; setsid sleep 1000 & sleep 1000", timeout_seconds=1)
    assert not bare.is_alive
    with pytest.raises(SandboxError):
        await bare.exec("true")


async def test_files_go_in_and_out(bare: Sandbox) -> None:
    await bare.write_file("deep/er/file", b"\0\xff data", mode=0o640)
    await bare.place([File("a/b", b"b")], "/tmp")
    assert await bare.read_file("deep/er/file") == b"\0\xff data"
    await bare.exec("ln -s /etc/passwd link; ln -s deep folder")
    found = [(entry.path, entry.kind) for entry in await bare.list_files(".")]
    assert found == [("/workspace/deep", "directory"), ("/workspace/folder", "symlink"), ("/workspace/link", "symlink")]
    collected = await bare.collect(["/workspace", "/tmp/a", "/nowhere", "/workspace/folder/er"])
    assert [(file.path, file.data) for file in collected] == [
        ("tmp/a/b", b"b"),
        ("workspace/deep/er/file", b"\0\xff data"),
    ]
    for path, follows, reason in (
        ("nowhere", True, "ENOENT"),
        ("link", False, "ELOOP"),
        ("folder/er/file", False, "ELOOP"),
        ("deep", True, "EISDIR"),
    ):
        with pytest.raises(SandboxFileError) as caught:
            await bare.read_file(path, follows_links=follows)
        assert caught.value.reason == reason
    with pytest.raises(SandboxFileError) as caught:
        await bare.write_file("/etc/x", b"")
    assert caught.value.reason == "EROFS"
    with pytest.raises(SandboxFileError) as caught:
        await bare.read_file("/bin/bash", max_bytes=1000)
    assert caught.value.reason == "EFBIG"


async def test_stop_leaves_no_process(bare: Sandbox) -> None:
    async with bare.start("setsid sleep 1000 & echo started; exec sleep 1000") as program:
        assert await anext(aiter(program.output())) == ("stdout", b"started\n")
        assert await bare.stop() >= 2
    assert await bare.stop() == 0
    assert (await bare.exec("echo again")).stdout.text == "again\n"


async def test_what_it_cannot_do_it_says(bare: Sandbox) -> None:
    with pytest.raises(NotOffered):
        await bare.snapshot()


async def test_a_container_killed_from_outside_is_told(bare: Sandbox, engine: Engine) -> None:
    async with anyio.create_task_group() as group:

        async def kill() -> None:
            async with bare.start("echo up; exec sleep 1000") as program:
                await anext(aiter(program.output()))
                await engine.call_again(engine.api.remove_container, bare.id, v=True, force=True)

        group.start_soon(kill)
        with anyio.fail_after(60), pytest.raises(SandboxError):
            await bare.exec("sleep 1000", timeout_seconds=1000)
    assert not bare.is_alive
