"""What bounds memory and disk for good: no swap beside the memory, no growing root."""

import anyio
import pytest

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.sandbox import Resources, Sandbox, SandboxSpec
from rollouthub_sandboxes.docker.container import NO_QUOTA, SWAP
from rollouthub_sandboxes.docker.provider import DockerProvider
from rollouthub_sandboxes.engine.engine import Engine
from tests.sandboxes.podman import IMAGE

SWAP_ALLOWED = "cd /sys/fs/cgroup; cat memory/memory.memsw.limit_in_bytes || cat memory.swap.max || echo unknown"


async def test_more_than_the_machine_has_is_refused_by_name(provider: DockerProvider) -> None:
    for resources, named in ((Resources(memory_bytes=1 << 50), "MiB of memory"), (Resources(cpus=9000), "9000 CPUs")):
        with pytest.raises(ConfigError, match=named):
            await provider.prepare(SandboxSpec(image=IMAGE, resources=resources))


async def test_swap_is_no_second_memory(sandbox: Sandbox, engine: Engine) -> None:
    memory = sandbox.ref.resources.memory_bytes
    given = (await engine.call(engine.api.inspect_container, sandbox.id))["HostConfig"]
    assert given["MemorySwap"] == memory or SWAP in sandbox.ref.limitations
    allowed = (await sandbox.exec(SWAP_ALLOWED)).stdout.text.strip()
    if SWAP not in sandbox.ref.limitations:
        assert allowed in (str(memory), "0", "unknown")


async def test_more_than_the_memory_is_never_had(sandbox: Sandbox) -> None:
    memory = sandbox.ref.resources.memory_bytes
    touch = f'$x = "a" x {memory * 2}; print length $x'
    done = await sandbox.exec(["perl", "-e", touch])
    assert done.out_of_memory
    assert done.stdout.text == ""
    assert (await sandbox.exec("echo well")).stdout.text == "well\n"


async def test_a_root_that_grows_too_large_ends_its_sandbox_as_a_fault_that_says_why(
    provider: DockerProvider, spec: SandboxSpec
) -> None:
    resources = Resources(memory_bytes=256 << 20, disk_bytes=16 << 20)
    large = spec.model_copy(update={"profile": "root-compat", "resources": resources})
    async with provider.open(large) as sandbox:
        if NO_QUOTA not in sandbox.ref.limitations:
            done = await sandbox.exec("head -c 64000000 /dev/zero > /root/big")
            assert "No space left" in done.stderr.text
            return
        with (
            anyio.fail_after(60),
            pytest.raises(SandboxError, match="bytes to its root, where 16,777,216 were"),
        ):
            await sandbox.exec("head -c 64000000 /dev/zero > /root/big; sleep 1000", timeout_seconds=900)
        assert not sandbox.is_alive
