"""A hub of its own that holds sandboxes, in a second process: opens them, says their names, and waits."""

import os
import sys

import anyio

from rollouthub.sandbox import Resources, SandboxSpec
from rollouthub_sandboxes.docker.provider import docker_provider


async def hold(image: str, count: int) -> None:
    """Hold so many sandboxes until standard input ends."""
    spec = SandboxSpec(image=image, resources=Resources(memory_bytes=64 << 20, pids=32, disk_bytes=8 << 20))
    async with docker_provider() as provider, anyio.create_task_group() as group:
        names: list[str] = []
        ready = anyio.Event()

        async def one() -> None:
            async with provider.open(spec) as sandbox:
                names.append(sandbox.id)
                if len(names) == count:
                    ready.set()
                await anyio.sleep_forever()

        for _ in range(count):
            group.start_soon(one)
        await ready.wait()
        os.write(1, f"{provider.run} {' '.join(names)}\n".encode())
        await anyio.to_thread.run_sync(sys.stdin.read)
        group.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(hold, sys.argv[1], int(sys.argv[2]))
