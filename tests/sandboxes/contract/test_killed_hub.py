"""What a hub that was killed leaves of its sandboxes: nothing that runs."""

import os
import signal
import sys
import time
from pathlib import Path

import anyio
import psutil

from rollouthub.sandbox import SandboxProvider

ROOT = Path(__file__).parents[3]
SLEEPERS = 4


def sleepers(seconds: str) -> list[psutil.Process]:
    """The processes of this machine, in containers or not, that sleep for just so long."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if process.info["cmdline"] == ["sleep", seconds] and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


async def test_programs_do_not_outlive_a_killed_hub(provider: SandboxProvider, kind: str) -> None:
    seconds = f"86{os.getpid()}.{time.time_ns() % 1_000_000:06}"
    command = [sys.executable, "-m", "tests.sandboxes.contract.holder", kind, seconds]
    async with await anyio.open_process(command, cwd=ROOT, stderr=None) as hub:
        try:
            assert hub.stdout is not None
            with anyio.fail_after(60):
                assert await hub.stdout.receive() == b"up\n"
                while len(sleepers(seconds)) < SLEEPERS:  # the shell says so before the last one is there
                    await anyio.lowlevel.checkpoint()
        finally:
            hub.send_signal(signal.SIGKILL)
        await hub.wait()
    with anyio.fail_after(60):
        while sleepers(seconds):
            await anyio.lowlevel.checkpoint()
