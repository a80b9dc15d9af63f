"""A docker engine of a test's own, which may be stopped, killed, frozen and started again without harm to others."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

IMAGE = "debian:bookworm-slim"
START_SECONDS, STOP_SECONDS = 60.0, 60.0


class PrivateEngine:
    """One `dockerd` with folders of its own and no network; the containers of a test live on it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def host(self) -> str:
        """For `DOCKER_HOST`."""
        return f"unix://{self._folder}/docker.sock"

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to use this engine and no other."""
        return {"DOCKER_HOST": self.host}

    def start(self) -> None:
        """Start it, on what an earlier start has left; back when it answers."""
        assert self._process is None, "it runs already"
        # One that was killed leaves its pid file behind, and a number may meanwhile be another's.
        (self._folder / "pid").unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command(), stdout=self._log.open("ab"), stderr=subprocess.STDOUT)
        for _ in moments(START_SECONDS):
            if self._answers():
                return
            if self._process.poll() is not None:
                break
        raise AssertionError(f"the engine did not start: {self._log.read_text()[-2000:]}")

    def end(self, sign: signal.Signals) -> None:
        """End it by a signal and wait until it is gone; under SIGKILL its containers and their keeper stay behind."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(sign)
        process.wait(STOP_SECONDS)
        assert not self._answers()

    def freeze(self) -> None:
        """Have it neither answer nor refuse."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after `freeze`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def docker(self, *arguments: str, **options: Any) -> str:
        """What the command line client of this engine prints."""
        command = ["docker", "-H", self.host, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, **options).stdout

    def containers(self, *filters: str) -> list[str]:
        """Names of the containers that hubs made, running or not."""
        wanted = [part for each in ("label=envhub=1", *filters) for part in ("--filter", each)]
        return self.docker("ps", "--all", *wanted, "--format", "{{.Names}}").split()

    def close(self) -> None:
        """End it, its containers and what keeps them, and remove its folders."""
        if self._process is not None:
            with suppress(subprocess.CalledProcessError, subprocess.TimeoutExpired):
                left = self.docker("ps", "--all", "--quiet").split()
                if left:
                    self.docker("rm", "--force", "--volumes", *left)
            self.end(signal.SIGTERM)
        self._end_the_rest()
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(self, image: str) -> None:
        """Copy an image from the machine's engine."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            self.docker("load", stdin=saved.stdout)
        assert saved.returncode == 0

    def _command(self) -> list[str]:
        folder = self._folder
        return [
            "dockerd",
            *("--host", self.host, "--pidfile", f"{folder}/pid"),
            *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
            *("--bridge", "none", "--iptables=false", "--ip6tables=false", "--shutdown-timeout", "20"),
        ]

    def _answers(self) -> bool:
        command = ["docker", "-H", self.host, "version"]
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0

    def _end_the_rest(self) -> None:
        """An engine that was killed leaves the daemon behind that keeps its containers, and those."""
        for _ in moments(STOP_SECONDS):
            left = list(self._own_processes())
            if not left:
                break
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            mount = line.split()[1]
            if mount.startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)

    def _own_processes(self) -> Iterator[int]:
        """Processes that name this engine's folder in their command line; no other has a reason to."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    if os.fsencode(f"{self._folder}/exec/") in (entry / "cmdline").read_bytes():
                        yield int(entry.name)


@contextmanager
def private_engine() -> Generator[PrivateEngine]:
    """A started engine with the base image; skipped aloud where none can be had."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None or shutil.which("docker") is None:
        pytest.skip("a private engine needs root, dockerd and docker")
    known = subprocess.run(["docker", "image", "inspect", IMAGE], capture_output=True, timeout=60, check=False)
    if known.returncode != 0:
        pytest.skip(f"a private engine takes {IMAGE} from the machine's engine, which does not have it")
    # Sockets lie in it, whose paths may not be long.
    engine = PrivateEngine(Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp")))
    try:
        engine.start()
        engine.load(IMAGE)
        yield engine
    finally:
        engine.close()


def moments(seconds: float, pause: float = 0.05) -> Iterator[None]:
    """Moments to look at something that gives no event, until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(pause)
