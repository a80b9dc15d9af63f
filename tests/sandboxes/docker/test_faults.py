"""What a sandbox survives, and how the end of one that is gone is told."""

from contextlib import suppress

import anyio
import pytest

from rollouthub.errors import SandboxError, SandboxOverrun
from rollouthub.sandbox import Resources, Sandbox, SandboxFileError, SandboxSpec
from rollouthub_sandboxes.docker.provider import DockerProvider, docker_provider
from rollouthub_sandboxes.engine.engine import Engine, EngineError

ALLOCATE = ["perl", "-e", '$x = "a" x (700 << 20); print length $x']


async def is_well(sandbox: Sandbox) -> bool:
    """Whether the next command runs."""
    return (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_want_of_memory_is_told_by_the_kernels_counter(provider: DockerProvider, spec: SandboxSpec) -> None:
    resources = Resources(memory_bytes=512 << 20, disk_bytes=32 << 20)
    async with provider.open(spec.model_copy(update={"resources": resources})) as sandbox:
        done = await sandbox.exec(ALLOCATE)
        assert (done.exit_status, done.out_of_memory) == (-9, True)
        assert await is_well(sandbox)
        done = await sandbox.exec("exit 137")
        assert (done.exit_status, done.out_of_memory) == (137, False)
        done = await sandbox.exec("kill -9 $$")
        assert (done.exit_status, done.out_of_memory) == (-9, False)


async def test_who_has_the_kernel_take_the_sandbox_for_want_of_memory_has_ended_it(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine
) -> None:
    if engine.kind == "podman":
        pytest.skip("Podman tells of no want of memory")
    preferred = "echo 1000 > /proc/1/oom_score_adj; for p in $PPID $$; do echo 0 > /proc/$p/oom_score_adj; done"
    hog = "perl -e '$x = \"a\" x (8 << 20); sleep 100' &"
    attack = f"{preferred}; for i in $(seq 12); do {hog} done; wait"
    update = {"profile": "root-compat", "resources": Resources(memory_bytes=64 << 20)}
    async with provider.open(spec.model_copy(update=update)) as sandbox:
        with anyio.fail_after(60), pytest.raises(SandboxOverrun, match="used up its memory"):
            while True:
                await sandbox.exec(attack)
        with pytest.raises(SandboxOverrun):
            await sandbox.stop()


async def test_a_fork_bomb_is_bounded_and_dies(sandbox: Sandbox) -> None:
    bomb = "bomb() { bomb | bomb & }; touch went-off; bomb; while :; do :; done"  # a shell that need not fork goes on
    done = await sandbox.exec(bomb, timeout_seconds=3)
    assert (done.timed_out, done.survivors) == (True, 0)
    assert await sandbox.read_file("went-off") == b""
    assert await is_well(sandbox)
    assert await sandbox.stop() == 0


async def test_a_flood_of_output_is_counted_and_not_kept(sandbox: Sandbox) -> None:
    done = await sandbox.exec("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo the end", timeout_seconds=60)
    assert done.exit_status == 0
    assert len(done.stdout.head) + len(done.stdout.tail) == 64_000
    assert done.stdout.dropped_bytes == 20_000_000 + len("\nthe end\n") - 64_000
    assert done.stdout.tail.endswith(b"the end\n")
    assert await is_well(sandbox)


async def test_a_full_disk_is_an_error_of_the_program(sandbox: Sandbox) -> None:
    done = await sandbox.exec("head -c 100000000 /dev/zero > big")
    assert done.exit_status != 0
    assert "No space left" in done.stderr.text
    with pytest.raises(SandboxFileError) as caught:
        await sandbox.write_file("more", b"x" * 100_000)
    assert caught.value.reason == "ENOSPC"
    assert (await sandbox.exec("rm big")).exit_status == 0
    assert await is_well(sandbox)


async def test_a_command_that_ignores_term_is_killed(sandbox: Sandbox) -> None:
    done = await sandbox.exec("trap '' TERM INT HUP; echo deaf; while :; do sleep 1; done", timeout_seconds=2)
    assert (done.timed_out, done.survivors, done.stdout.text) == (True, 0, "deaf\n")
    assert await is_well(sandbox)


async def test_a_container_killed_from_outside_breaks_its_command_at_once(
    provider: DockerProvider, spec: SandboxSpec, engine: Engine
) -> None:
    async with provider.open(spec) as sandbox:
        async with sandbox.start("echo started; exec sleep 1000") as program:
            assert await anext(aiter(program.output())) == ("stdout", b"started\n")
            with suppress(EngineError):  # Podman looks for it once more when it is dead
                await engine.call(engine.api.kill, sandbox.id)
            with anyio.fail_after(10), pytest.raises(SandboxError, match="killed from outside") as caught:
                await program.wait()
            assert not isinstance(caught.value, SandboxOverrun)
        assert not sandbox.is_alive
        with pytest.raises(SandboxError, match="killed from outside"):
            await sandbox.exec("true")
    async with provider.open(spec) as another:
        assert await is_well(another)


async def test_the_files_of_an_image_are_there_in_its_own_workdir(engine: Engine) -> None:
    image = await _image_with_workdir(engine)
    try:
        async with docker_provider() as provider, provider.open(SandboxSpec(image=image)) as sandbox:
            assert sandbox.workdir == "/app"
            listing = await sandbox.exec("cat code/main; readlink link; ls data; touch new code/new && stat -c %a tool")
            assert listing.stdout.text == "hello\ncode/main\nrow\n750\n", listing.stderr.text
    finally:
        await engine.call(engine.api.remove_image, image, force=True)


async def _image_with_workdir(engine: Engine) -> str:
    """An image with files, a link and a volume in its workdir, committed from a container."""
    limits = [{"Name": name, "Soft": 1024, "Hard": 1024} for name in ("nofile", "nproc")]
    walls = {"NetworkMode": "none", "Ulimits": limits}
    config = {"Image": "debian:bookworm-slim", "Cmd": ["sh", "-c", SETUP], "HostConfig": walls}
    made = await engine.call(engine.api.create_container_from_config, config, None)
    try:
        await engine.call(engine.api.start, made["Id"])
        await engine.call(engine.api.wait, made["Id"])
        changes = "WORKDIR /app\nVOLUME /app/data"
        return (await engine.call(engine.api.commit, made["Id"], changes=changes))["Id"]
    finally:
        await engine.call(engine.api.remove_container, made["Id"], v=True, force=True)


SETUP = """
mkdir -p /app/code /app/data; cd /app; echo hello > code/main; ln -s code/main link; echo 1 > data/row; touch tool
chmod 750 tool
"""
