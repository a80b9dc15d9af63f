"""A docker engine of a test's own, which may be stopped, killed, frozen and started again without harm to others."""

import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
import pytest

IMAGE = "debian:bookworm-slim"
START_SECONDS, STOP_SECONDS, CALL_SECONDS = 60.0, 60.0, 120.0


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

    def start(self) -> None:
        """Start it, on what an earlier start has left; back when it says that it is ready."""
        assert self._process is None, "it runs already"
        # One that was killed leaves pid files behind, its own and that of the daemon which died with it. A number in
        # them may meanwhile be another's, or a zombie's.
        for left in ("pid", "exec/containerd/containerd.pid"):
            (self._folder / left).unlink(missing_ok=True)
        ready = self._folder / "ready"
        ready.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as said, self._log.open("ab") as log:
            said.bind(str(ready))
            environment = {**os.environ, "NOTIFY_SOCKET": str(ready)}
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, env=environment)
            ended = os.pidfd_open(self._process.pid)
            try:
                readable, _, _ = select.select([said, ended], [], [], START_SECONDS)
            finally:
                os.close(ended)
            assert readable == [said], f"the engine did not start: {self._log.read_text()[-2000:]}"

    def end(self, sign: signal.Signals) -> None:
        """End it by a signal; back when it is gone. Killed, it leaves its containers running."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(sign)
        process.wait(STOP_SECONDS)

    def freeze(self) -> None:
        """Have it neither answer nor refuse."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Have it go on after `freeze`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def docker(self, *arguments: str, stdin: IO[bytes] | None = None) -> str:
        """What the command line client of this engine prints."""
        command = ["docker", "-H", self.host, *arguments]
        done = subprocess.run(command, stdin=stdin, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def containers(self) -> list[str]:
        """Names of all the containers that hubs made, running or not."""
        return self.docker("ps", "--all", "--filter", "label=rollouthub=1", "--format", "{{.Names}}").split()

    def load(self, image: str) -> None:
        """Copy an image from the machine's own engine."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
            self.docker("load", stdin=saved.stdout)
        assert saved.returncode == 0

    def close(self) -> None:
        """End it, its containers and what keeps them, and remove its folders."""
        try:
            if self._process is None:
                self.start()  # it knows best what it has left behind
            self.thaw()
            if left := self.docker("ps", "--all", "--quiet").split():
                command = ["docker", "-H", self.host, "rm", "--force", "--volumes", *left]
                # It may be about to remove some itself, and says so as an error.
                subprocess.run(command, capture_output=True, timeout=CALL_SECONDS, check=False)
            self.end(signal.SIGTERM)
        finally:
            self._end_the_rest()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _command(self) -> list[str]:
        folder = self._folder
        return [
            *(
                "unshare",
                "--net",
                "dockerd",
            ),  # of a network of its own: `--bridge none` removes docker0, whoever made it
            *("--host", self.host, "--pidfile", f"{folder}/pid"),
            *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
            *("--bridge", "none", "--iptables=false", "--ip6tables=false"),
        ]

    def _end_the_rest(self) -> None:
        left = list(self._own_processes())
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, STOP_SECONDS)
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            mount = line.split()[1]
            if mount.startswith(f"{self._folder}/"):
                subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)

    def _own_processes(self) -> Iterator[psutil.Process]:
        """The engine and the daemons it starts: they alone are named after its folder."""
        for process in psutil.process_iter(["name", "cmdline"]):
            words: list[str] = process.info["cmdline"] or []
            is_daemon = str(process.info["name"]).startswith(("dockerd", "containerd"))
            if is_daemon and any(word.removeprefix("unix://").startswith(f"{self._folder}/") for word in words):
                yield process


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
