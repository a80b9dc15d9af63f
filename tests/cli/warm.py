"""A `hub` that has loaded its modules and waits: each command runs in a fork of it, a process like any other.

Loading takes most of a second, and a command that refuses a word hardly more. What tests start beside themselves
(`started`), and what documents show, loads everything as a user's does.
"""

import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

LOADED = (
    "rollouthub.cli.main",
    "rollouthub.cli.run.action",
    "rollouthub.cli.compare.action",
    "rollouthub.cli.score.rescore_action",
    "rollouthub.cli.serve.env.action",
    "rollouthub.cli.run_tables",
    "rollouthub.cli.show.transcript_view",
    "rollouthub.hosting.open_host",
    "rollouthub_agents.oracle",
    "rollouthub_agents.tool_loop",
    "rollouthub_servers.arithmetic",
    "uvloop",
)
WAIT = "from tests.cli.warm import wait; wait({})"  # with -c, as `HUB`: what lies in the folder can be imported
MOST_BYTES = 1 << 20


class WarmHub:
    """Runs commands one after the other, each in a fork."""

    def __init__(self, line: socket.socket, variables: Mapping[str, str]) -> None:
        self._line, self._read = line, _pythons_own(variables)

    def reads_the_same(self, variables: Mapping[str, str]) -> bool:
        """Whether Python, when it started here, found what it would find with these variables."""
        return _pythons_own(variables) == self._read

    def run(
        self,
        command: list[str],
        folder: Path,
        environment: Mapping[str, str],
        timeout_seconds: float,
        stdin: bytes | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` with captured output; `stdin` is what fits into a pipe."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, _readable(stdin) as given:
            asked = json.dumps([command, str(folder), dict(environment)]).encode()
            self._line.settimeout(60)
            socket.send_fds(self._line, [asked], [given, out.fileno(), err.fileno()])
            pid = int(self._line.recv(64))
            self._line.settimeout(timeout_seconds)
            try:
                code = int(self._line.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._line.settimeout(60)
                self._line.recv(64)
                raise subprocess.TimeoutExpired(command, timeout_seconds) from None
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, code, out.read().decode(), err.read().decode())


def _pythons_own(variables: Mapping[str, str]) -> dict[str, str]:
    """What Python itself reads when it starts, and never again."""
    return {name: value for name, value in variables.items() if name.startswith("PYTHON")}


@contextmanager
def _readable(stdin: bytes | None) -> Generator[int]:
    """A file to read this from."""
    if stdin is None:
        with Path(os.devnull).open("rb") as nothing:
            yield nothing.fileno()
        return
    reading, writing = os.pipe()
    try:
        os.write(writing, stdin)
        os.close(writing)
        yield reading
    finally:
        os.close(reading)


@contextmanager
def warm_hub() -> Generator[WarmHub]:
    """A `hub` that is warm as long as this is open."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    root, number = Path(__file__).parents[2], theirs.fileno()
    with ours, subprocess.Popen([sys.executable, "-c", WAIT.format(number)], cwd=root, pass_fds=[number]):
        theirs.close()
        yield WarmHub(ours, os.environ)
        ours.close()  # which it takes for the end


def wait(number: int) -> None:
    """Load, and fork for each command that comes over a socket; in the fork, be `hub`."""
    for module in LOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # else the first collection of each fork copies all that is loaded
    assert threading.active_count() == 1  # only such a process may fork
    with socket.socket(fileno=number) as line:
        while True:
            asked, files, _, _ = socket.recv_fds(line, MOST_BYTES, 3)
            if not asked:
                return
            pid = os.fork()
            if pid == 0:
                break
            for file in files:
                os.close(file)
            line.send(str(pid).encode())
            _, status = os.waitpid(pid, 0)
            line.send(str(os.waitstatus_to_exitcode(status)).encode())
    arguments, folder, environment = json.loads(asked)
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    from rollouthub.cli.main import main

    main()
