"""`hub model` as a user has it: in a state folder and a working folder of its own."""

import os
import signal
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from rollouthub.store import open_run
from tests.cli.conftest import HUB, Done, environment


class Pool:
    """Models that are up, and the commands that look at them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = environment(XDG_STATE_HOME=str(folder / "state"))

    def hub(self, *arguments: str | Path, timeout: float = 120) -> Done:
        """Run a command to its end."""
        done = subprocess.run(
            [*HUB, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Done(done)

    @contextmanager
    def started(self, *arguments: str | Path) -> Generator[subprocess.Popen[str]]:
        """A command beside the test."""
        with subprocess.Popen(
            [*HUB, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def servers(self, name: str) -> list[dict[str, Any]]:
        """How the servers of a model stand; none where it is not up."""
        shown: list[dict[str, Any]] = self.hub("model", "ls", "--json").json
        return [server for each in shown if each["model"] == name for server in each["servers"]]

    async def kill_in_mid_run(self, name: str, run: Path, finished: int) -> tuple[int, Path]:
        """Kill a server of a model once so many rollouts of a run are done; its process, and what it was."""
        await until_finished(run, finished)
        pid = int(self.servers(name)[0]["pid"])
        was = (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        assert name in was, "the victim is a server of the model, and alive"
        os.kill(pid, signal.SIGKILL)
        return pid, Path(f"/proc/{pid}")

    async def until_back(self, name: str, seconds: float) -> list[dict[str, Any]]:
        """How the servers stand once all are healthy again, and one of them not for the first time."""
        with anyio.fail_after(seconds):
            while True:
                servers = self.servers(name)
                is_back = all(server["state"] == "healthy" for server in servers)
                if is_back and sum(server["restarts"] for server in servers):
                    return servers
                await anyio.sleep(0.2)


async def until_finished(run: Path, count: int) -> None:
    """Wait until so many rollouts of a run are committed."""
    with anyio.fail_after(120):
        while True:
            if (run / "run.db").exists():
                with open_run(run) as reader:
                    if sum(1 for _ in reader.rollouts()) >= count:
                        return
            await anyio.sleep(0.1)


def check_complete(run: Path, planned: int) -> None:
    """Every rollout has its record, scored, and none has two."""
    with open_run(run) as reader:
        rollouts = list(reader.rollouts())
    assert len({rollout.rollout_id for rollout in rollouts}) == len(rollouts) == planned
    assert {rollout.outcome.value for rollout in rollouts} == {"scored"}
