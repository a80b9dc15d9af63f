"""A writable root that grows over its size."""

import anyio
import pytest

from rollouthub.errors import SandboxOverrun
from rollouthub.sandbox import Resources, SandboxSpec
from rollouthub_sandboxes.docker.container import NO_QUOTA
from rollouthub_sandboxes.docker.provider import DockerProvider
from tests.sandboxes.podman import IMAGE


async def test_a_sandbox_that_writes_too_much_is_ended_and_says_why(provider: DockerProvider) -> None:
    resources = Resources(memory_bytes=128 << 20, disk_bytes=8 << 20)
    async with provider.open(SandboxSpec(image=IMAGE, profile="root-compat", resources=resources)) as sandbox:
        if NO_QUOTA not in sandbox.ref.limitations:
            pytest.skip("this engine's storage bounds roots by itself")
        assert (await sandbox.exec("head -c 1000000 /dev/zero > /little")).exit_status == 0
        with anyio.fail_after(60), pytest.raises(SandboxOverrun, match="bytes to its root"):
            await sandbox.exec("head -c 20000000 /dev/zero > /much; exec sleep 1000", timeout_seconds=900)
        assert not sandbox.is_alive
